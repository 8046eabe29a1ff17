package embedded

import (
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// late are the chunks that a source passed by because their table has its share of
// what is open: a table that is not written must not keep its tenant's others. They
// stay in the stream, and are read once there is room.
type late struct {
	// passed is, by table, from the first sequence that was passed by to the last;
	// all of the table's between them were. It is guarded by the queue's mu.
	passed map[string]ledger.Range
	// read are chunks of them that are delivered next, in order, of the stream of
	// epoch. They take turns with the others.
	read  []buffered
	epoch uint64
	turn  bool
}

// shareLocked is how many chunks of one table may be open beside those that are: a
// table alone has four fifths of all, and any other still has room.
func (s *source) shareLocked() int { return tableShare * max(s.q.b.o.maxOpen-len(s.open), 0) }

// passLocked passes a chunk by that comes for the first time, if it must be.
func (s *source) passLocked(h *buffered) bool {
	table := h.chunk.Table
	passed, already := s.late.passed[table]
	switch {
	case table == "": // what is left of a damaged chunk
		return false
	case !already && (s.opened[table] == 0 || s.opened[table] < s.shareLocked()):
		return false
	case !already:
		passed.Lo = h.seq
	}
	s.late.passed[table] = ledger.Range{Lo: min(passed.Lo, h.seq), Hi: max(passed.Hi, h.seq)}
	s.q.waiting.delivered(h.seq, &h.chunk)
	s.next = max(s.next, h.seq+1)
	return true
}

// takeLate delivers the next chunk that was passed by; without one it says in what
// time to look again.
func (s *source) takeLate() (*delivery, time.Duration) {
	for len(s.late.read) > 0 || s.readLate() {
		s.q.mu.Lock()
		h := s.late.read[0]
		switch table := h.chunk.Table; {
		case s.late.epoch != s.q.epoch:
			s.dropLate()
		case s.opened[table] > 0 && s.opened[table] >= s.shareLocked():
			passed := s.late.passed[table]
			passed.Lo = h.seq
			s.late.passed[table] = passed
			s.dropLate()
		default:
			s.late.read[0] = buffered{}
			s.late.read = s.late.read[1:]
			s.q.b.ahead.Add(-h.size())
			if !s.q.acked.Done(h.seq) && s.open[h.seq] == nil {
				defer s.q.mu.Unlock()
				return s.openLocked(&h), 0
			}
		}
		s.q.mu.Unlock()
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if table, _ := s.dueLateLocked(); table != "" {
		return nil, 250 * time.Millisecond // they could not be read
	}
	return nil, idle
}

// dueLateLocked is a table of which chunks were passed by and that has room again,
// "" when there is none. One of which all were delivered since is forgotten: the
// worker has taken them by now.
func (s *source) dueLateLocked() (string, ledger.Range) {
	for table, passed := range s.late.passed {
		switch n := s.opened[table]; {
		case passed.Lo > passed.Hi:
			delete(s.late.passed, table)
		case n == 0 || 2*n < s.shareLocked():
			return table, passed
		}
	}
	return "", ledger.Range{}
}

// readLate reads chunks that were passed by and reports whether there are any.
func (s *source) readLate() bool {
	s.q.mu.Lock()
	table, passed := s.dueLateLocked()
	epoch := s.q.epoch
	s.q.mu.Unlock()
	if table == "" || s.q.hurtAt(passed.Lo) {
		return false
	}
	subject := jetstream.Subject(ingestSubjects, mq.Topic{Tenant: s.q.tenant, Table: table})
	msgs, err := s.q.b.reads.From(s.c.ctx, ingestStream(s.q.tenant), subject, passed.Lo, jetstream.ReadBatch, jetstream.ReadBytes)
	if err != nil && !errors.Is(err, jetstream.ErrNoMessage) {
		if s.c.ctx.Err() == nil {
			s.q.log.Warn("queue cannot be read", "seq", passed.Lo, "error", err)
		}
		return false
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if epoch != s.q.epoch {
		return false
	}
	s.late.epoch = epoch
	for i := range msgs {
		if h := decoded(&msgs[i]); h.seq <= passed.Hi {
			s.late.read = append(s.late.read, *h)
			s.q.b.ahead.Add(h.size())
			passed.Lo = h.seq + 1
		}
	}
	if len(s.late.read) == 0 {
		// They are not there, or cannot be read: whoever reads one after the other
		// tells which.
		s.next = min(s.next, passed.Lo)
		passed.Lo = passed.Hi + 1
	}
	s.late.passed[table] = passed
	return len(s.late.read) > 0
}

// dropLate forgets what was read.
func (s *source) dropLate() {
	for i := range s.late.read {
		s.q.b.ahead.Add(-s.late.read[i].size())
	}
	s.late.read = nil
}

var _ mq.Passer = (*consumption)(nil)

// Passed implements mq.Passer.
func (c *consumption) Passed(t mq.Topic) bool {
	q, ok := c.b.known(t.Tenant)
	if !ok {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.source == nil {
		return false
	}
	_, passed := q.source.late.passed[t.Table]
	return passed
}
