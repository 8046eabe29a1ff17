package embedded

import (
	"container/heap"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
)

// source delivers one tenant's chunks to the worker, one after the other. It
// reads ahead from the stream, or takes chunks just published from memory
// when it has caught up. To the worker it is a shard of its own.
type source struct {
	c    *consumption
	q    *queue
	wake chan struct{}

	// ahead are chunks read from the stream and not yet delivered; they
	// belong to run, and their bytes are part of the broker's.
	ahead []buffered
	// unread counts failed attempts at the same sequence.
	unread int

	// The rest is guarded by q.mu.

	// next is the first sequence that was never delivered.
	next uint64
	// open are chunks delivered and not ended; due orders them by when to look
	// at them again.
	open map[uint64]*attempt
	due  dueHeap
	// opened counts them by table, and late are chunks of tables that have their
	// share of them.
	opened map[string]int
	late   late
	// recent are chunks just published, without holes.
	recent      []buffered
	recentBytes int64
}

// buffered is a chunk in memory.
type buffered struct {
	seq   uint64
	chunk mq.Chunk
}

// chunkOverhead is what a buffered chunk costs beside its body, so that many small
// ones are bounded too.
const chunkOverhead = 512

func (h *buffered) size() int64 { return int64(len(h.chunk.Body)+len(h.chunk.Columns)) + chunkOverhead }

// attempt is the state of a chunk between its first delivery and its end. It
// is out with the worker, or waits for delivery n+1, until at.
type attempt struct {
	seq uint64
	n   int
	out bool
	at  time.Time
	// table and bytes are what of the queue's waiting it is.
	table string
	bytes int64
}

func newSource(c *consumption, q *queue) *source {
	return &source{
		c: c, q: q, wake: make(chan struct{}, 1), open: map[uint64]*attempt{},
		opened: map[string]int{}, late: late{passed: map[string]ledger.Range{}},
	}
}

func (s *source) shard() mq.Shard { return s.c.shard(s.q.tenant) }

func (s *source) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run delivers until the consumption ends.
func (s *source) run() {
	defer s.detach()
	s.c.work.Assigned(s.shard())
	for s.c.ctx.Err() == nil {
		d, wait := s.take()
		switch {
		case d != nil:
			s.c.work.Deliver(d)
		default:
			s.pause(wait)
		}
	}
}

func (s *source) detach() {
	for len(s.ahead) > 0 {
		s.popAhead()
	}
	s.dropLate()
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
	due, wait := s.dueLocked(time.Now())
	if due != 0 {
		s.q.mu.Unlock()
		return s.redeliver(due), 0
	}
	passed := len(s.late.passed) > 0
	s.q.mu.Unlock()
	if !passed {
		return s.takeNext(wait)
	}
	if s.late.turn = !s.late.turn; s.late.turn {
		if d, _ := s.takeLate(); d != nil {
			return d, 0
		}
	}
	if d, left := s.takeNext(wait); d != nil || left == 0 {
		return d, left
	} else if wait = left; !s.late.turn {
		d, left := s.takeLate()
		return d, min(wait, left)
	}
	return nil, min(wait, 250*time.Millisecond)
}

// takeNext returns the next chunk that was never delivered.
func (s *source) takeNext(wait time.Duration) (*delivery, time.Duration) {
	s.q.mu.Lock()
	s.next = s.q.acked.Next(s.next)
	next := s.next
	if next > s.q.last {
		s.q.mu.Unlock()
		return nil, wait
	}
	d := s.fromRecentLocked()
	moved := s.next != next
	s.q.mu.Unlock()
	if moved {
		return d, 0
	}
	return s.fromStream(next, wait)
}

// dueLocked returns a chunk whose next attempt is due, 0 when there is none,
// and when to look again. One that was out is taken back.
func (s *source) dueLocked(now time.Time) (seq uint64, wait time.Duration) {
	for len(s.due) > 0 {
		top := s.due[0]
		a := s.open[top.seq]
		if a == nil || !a.at.Equal(top.at) {
			heap.Pop(&s.due) // acknowledged, or put off since
			continue
		}
		if left := top.at.Sub(now); left > 0 {
			return 0, min(left, idle)
		}
		heap.Pop(&s.due)
		a.out = false
		return top.seq, 0
	}
	return 0, idle
}

// putOffLocked sets when to look at a chunk again.
func (s *source) putOffLocked(a *attempt, d time.Duration) {
	a.at = time.Now().Add(d)
	heap.Push(&s.due, dueItem{a.at, a.seq})
}

// redeliver reads a chunk again and delivers it.
func (s *source) redeliver(seq uint64) *delivery {
	h, err := s.readAgain(seq)
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	a := s.open[seq]
	if a == nil {
		return nil // acknowledged meanwhile
	}
	if err != nil {
		s.putOffLocked(a, time.Second)
		return nil
	}
	s.c.b.metrics.Redelivered.Inc()
	return s.deliverLocked(h, a)
}

func (s *source) readAgain(seq uint64) (*buffered, error) {
	m, err := s.q.b.reads.One(s.c.ctx, ingestStream(s.q.tenant), seq)
	if err != nil {
		if s.c.ctx.Err() == nil {
			s.q.log.Warn("chunk cannot be read for another attempt", "seq", seq, "error", err)
		}
		return nil, err
	}
	return decoded(&m), nil
}

// deliverLocked hands out a chunk, for the first time or again.
func (s *source) deliverLocked(h *buffered, a *attempt) *delivery {
	a.n++
	a.out = true
	s.putOffLocked(a, s.q.b.o.AckWait)
	return &delivery{source: s, chunk: h.chunk, attempt: a.n, epoch: s.q.epoch, seq: h.seq}
}

// deliverFirstLocked delivers the chunk at next, unless it is passed by.
func (s *source) deliverFirstLocked(h *buffered) *delivery {
	if s.open[h.seq] != nil {
		s.next = max(s.next, h.seq+1)
		return nil
	}
	if s.passLocked(h) {
		return nil
	}
	s.q.waiting.delivered(h.seq, &h.chunk)
	s.next = max(s.next, h.seq+1)
	return s.openLocked(h)
}

func (s *source) openLocked(h *buffered) *delivery {
	a := &attempt{seq: h.seq, table: h.chunk.Table, bytes: storedSize(&h.chunk)}
	s.open[h.seq] = a
	s.opened[a.table]++
	return s.deliverLocked(h, a)
}

// fromRecentLocked takes the next chunk from memory if it is there.
func (s *source) fromRecentLocked() *delivery {
	for len(s.recent) > 0 && s.recent[0].seq < s.next {
		s.popRecentLocked()
	}
	if len(s.ahead) > 0 || len(s.recent) == 0 || s.recent[0].seq != s.next {
		return nil
	}
	h := s.popRecentLocked()
	return s.deliverFirstLocked(&h)
}

func (s *source) popRecentLocked() buffered {
	h := s.recent[0]
	s.recent[0] = buffered{}
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
	h := buffered{seq: seq, chunk: c}
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
func (s *source) ackedLocked(e ledger.Range) {
	if len(s.late.passed) > 0 {
		s.wakeUp()
	}
	for seq := e.Lo; seq <= e.Hi; seq++ {
		if a := s.open[seq]; a != nil {
			s.q.waiting.add(a.table, -a.bytes)
			delete(s.open, seq)
			if s.opened[a.table]--; s.opened[a.table] == 0 {
				delete(s.opened, a.table)
			}
		}
	}
	if len(s.due) > 2*len(s.open)+1024 {
		s.tidyLocked()
	}
}

// tidyLocked drops the stale items of due.
func (s *source) tidyLocked() {
	kept := s.due[:0]
	for _, item := range s.due {
		if a := s.open[item.seq]; a != nil && a.at.Equal(item.at) {
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
		s.q.waiting.reset(s.q.last)
		clear(s.open)
		clear(s.opened)
		clear(s.late.passed)
		s.due = nil
		s.next = s.q.acked.Floor + 1
	}
	s.wakeUp()
}
