package embedded

import (
	"container/heap"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
)

// source delivers one tenant's chunks to the worker, one after the other. It
// reads ahead from the stream, or takes chunks just published from memory
// when it has caught up.
type source struct {
	c    *consumption
	q    *queue
	wake chan struct{}

	// ahead are chunks read from the stream and not yet delivered; they
	// belong to run. Their bytes are part of held.
	ahead []held
	// unread counts failed attempts at the same sequence.
	unread int

	// The rest is guarded by q.mu.

	// next is the first sequence that was never delivered.
	next uint64
	// out are deliveries that are not answered, again those that wait for
	// another attempt; due orders both by time.
	out   map[uint64]*attempt
	again map[uint64]*attempt
	due   dueHeap
	held  int64
	// recent are chunks just published, without holes.
	recent      []held
	recentBytes int64
}

// held is a chunk in memory.
type held struct {
	seq   uint64
	chunk mq.Chunk
}

func (h *held) size() int64 { return int64(len(h.chunk.Body)+len(h.chunk.Columns)) + chunkOverhead }

// attempt is the state of a chunk between its first delivery and its end.
type attempt struct {
	seq  uint64
	n    int
	size int64
	at   time.Time
}

func newSource(c *consumption, q *queue) *source {
	return &source{c: c, q: q, wake: make(chan struct{}, 1),
		out: map[uint64]*attempt{}, again: map[uint64]*attempt{}}
}

func (s *source) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run delivers until the consumption ends.
func (s *source) run() {
	defer s.detach()
	for s.c.ctx.Err() == nil {
		d, wait := s.take()
		switch {
		case d != nil:
			s.c.handle(d)
		default:
			s.pause(wait)
		}
	}
}

func (s *source) detach() {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if s.q.source == s {
		s.q.source = nil
	}
	s.dropRecentLocked()
}

// pause waits until there may be something to do.
func (s *source) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.wake:
	case <-t.C:
	case <-s.c.ctx.Done():
	}
}

// idle is how long a source sleeps when nothing wakes it.
const idle = time.Minute

// take returns the next delivery, or how long to wait for one.
func (s *source) take() (*delivery, time.Duration) {
	s.q.mu.Lock()
	due, n, wait := s.dueLocked(time.Now())
	if due != 0 {
		s.q.mu.Unlock()
		return s.redeliver(due, n)
	}
	s.skipDoneLocked()
	next, last := s.next, s.q.last
	if next > last {
		s.q.mu.Unlock()
		return nil, wait
	}
	d, ok := s.fromRecentLocked()
	s.q.mu.Unlock()
	if ok {
		if d == nil {
			return nil, wait
		}
		return d, 0
	}
	return s.fromStream(next, wait)
}

// skipDoneLocked moves next over what is acknowledged already.
func (s *source) skipDoneLocked() {
	s.next = s.q.acked.Next(s.next)
}

// dueLocked returns a chunk whose next attempt is due, 0 when there is none,
// and when to look again.
func (s *source) dueLocked(now time.Time) (seq uint64, n int, wait time.Duration) {
	for len(s.due) > 0 {
		top := s.due[0]
		a := s.out[top.seq]
		if a == nil {
			a = s.again[top.seq]
		}
		if a == nil || !a.at.Equal(top.at) {
			heap.Pop(&s.due) // acknowledged, or put off since
			continue
		}
		if left := top.at.Sub(now); left > 0 {
			return 0, 0, min(left, idle)
		}
		heap.Pop(&s.due)
		s.returnLocked(top.seq)
		return top.seq, a.n, 0
	}
	return 0, 0, idle
}

// returnLocked takes back a delivery that was not answered in time.
func (s *source) returnLocked(seq uint64) {
	if a := s.out[seq]; a != nil {
		delete(s.out, seq)
		s.releaseLocked(a.size)
		s.again[seq] = a
	}
}

func (s *source) releaseLocked(size int64) {
	s.held -= size
	s.c.allowance.give(size)
	s.wakeUp()
}

// redeliver reads a chunk again and delivers it.
func (s *source) redeliver(seq uint64, n int) (*delivery, time.Duration) {
	h, err := s.readAgain(seq)
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	a := s.again[seq]
	if a == nil {
		return nil, 0 // acknowledged meanwhile
	}
	if err != nil {
		a.at = time.Now().Add(time.Second)
		heap.Push(&s.due, dueItem{a.at, seq})
		return nil, 0
	}
	s.c.b.metrics.redelivered.Inc()
	delete(s.again, seq)
	s.chargeLocked(h.size())
	return s.deliverLocked(h, n+1), 0
}

func (s *source) readAgain(seq uint64) (*held, error) {
	m, err := s.q.b.reads.One(s.c.ctx, ingestStream(s.q.tenant), seq)
	if err != nil {
		if s.c.ctx.Err() == nil {
			s.q.log.Warn("chunk cannot be read for another attempt", "seq", seq, "error", err)
		}
		return nil, err
	}
	return decoded(&m), nil
}

func (s *source) chargeLocked(size int64) {
	s.held += size
	s.c.allowance.take(size)
}

// deliverLocked hands out a chunk whose bytes are charged.
func (s *source) deliverLocked(h *held, n int) *delivery {
	at := time.Now().Add(s.q.b.o.AckWait)
	s.out[h.seq] = &attempt{seq: h.seq, n: n, size: h.size(), at: at}
	heap.Push(&s.due, dueItem{at, h.seq})
	if h.seq >= s.next {
		s.next = h.seq + 1
	}
	return &delivery{source: s, chunk: h.chunk, attempt: n, epoch: s.q.epoch, seq: h.seq}
}

// fromRecentLocked takes the next chunk from memory. It returns true and no
// delivery when the chunk is there and must wait for room.
func (s *source) fromRecentLocked() (*delivery, bool) {
	for len(s.recent) > 0 && s.recent[0].seq < s.next {
		s.popRecentLocked()
	}
	if len(s.ahead) > 0 || len(s.recent) == 0 || s.recent[0].seq != s.next {
		return nil, false
	}
	size := s.recent[0].size()
	if room := s.c.allowance.room(s, s.held, size); room < size && s.held > 0 {
		return nil, true
	}
	h := s.popRecentLocked()
	s.chargeLocked(size)
	return s.deliverLocked(&h, 1), true
}

func (s *source) popRecentLocked() held {
	h := s.recent[0]
	s.recent[0] = held{}
	s.recent = s.recent[1:]
	s.recentBytes -= h.size()
	s.q.b.recent.Add(-h.size())
	return h
}

func (s *source) dropRecentLocked() {
	s.q.b.recent.Add(-s.recentBytes)
	s.recent, s.recentBytes = nil, 0
}

// publishedLocked notes a chunk that was just stored, and keeps it in memory
// while there is room; otherwise it is read later.
func (s *source) publishedLocked(seq uint64, c mq.Chunk) {
	defer s.wakeUp()
	h := held{seq: seq, chunk: c}
	size := h.size()
	if n := len(s.recent); n > 0 {
		full := s.recentBytes+size > maxTenantRecent
		switch follows := seq == s.recent[n-1].seq+1; {
		case (full || !follows) && s.recent[0].seq <= s.next:
			return // being delivered from
		case full || !follows:
			s.dropRecentLocked() // far behind: begin again at the end
		}
	}
	if seq >= s.next && s.q.b.recent.Load()+size <= maxRecent {
		s.recent = append(s.recent, h)
		s.recentBytes += size
		s.q.b.recent.Add(size)
	}
}

// ackedLocked forgets deliveries that ended.
func (s *source) ackedLocked(e ledger.Span) {
	for seq := e.Lo; seq <= e.Hi; seq++ {
		if a := s.out[seq]; a != nil {
			delete(s.out, seq)
			s.releaseLocked(a.size)
		}
		delete(s.again, seq)
	}
	if live := len(s.out) + len(s.again); len(s.due) > 2*live+1024 {
		s.tidyLocked()
	}
}

// tidyLocked drops the stale items of due.
func (s *source) tidyLocked() {
	kept := s.due[:0]
	for _, item := range s.due {
		a := s.out[item.seq]
		if a == nil {
			a = s.again[item.seq]
		}
		if a != nil && a.at.Equal(item.at) {
			kept = append(kept, item)
		}
	}
	s.due = kept
	heap.Init(&s.due)
}

// resetLocked follows the stream after it was opened again. Deliveries of the
// same stream stay valid; those of one that is gone are forgotten.
func (s *source) resetLocked(gone bool) {
	s.dropRecentLocked()
	s.next = min(s.next, s.q.last+1)
	if gone {
		for _, a := range s.out {
			s.releaseLocked(a.size)
		}
		clear(s.out)
		clear(s.again)
		s.due = nil
		s.next = s.q.acked.Floor + 1
	}
	s.wakeUp()
}
