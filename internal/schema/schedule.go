package schema

import (
	"container/heap"
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// maxAtOnce bounds the discoveries that run.
	maxAtOnce = 8
	// maxPerServer and maxDistrusted bound those of one server, and those of
	// tenants whose last one failed: a ClickHouse that accepts and says nothing
	// must leave room for the others'.
	maxPerServer  = 6
	maxDistrusted = 4
	// hastyTimeout bounds a discovery while others wait, three times of four:
	// one that needs longer gets its time in the end.
	hastyTimeout = 5 * time.Second
	patientEvery = 4
)

// schedule is whose turn it is. All of it is guarded by the store's mutex; no
// tenant has a goroutine or a timer while its discovery does not run.
type schedule struct {
	later dueHeap // not due, the next first
	// urgent are due because somebody waits for them, routine because their
	// time has come. Entries that were started meanwhile are skipped.
	urgent, routine []*entry

	active     int
	perServer  map[string]int
	distrusted int
}

// startDue starts what is due and returns how long nothing else is.
func (s *Store) startDue() time.Duration {
	const idle = time.Minute
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	for len(s.later) > 0 && !s.later[0].next.After(now) {
		e := s.later[0]
		e.current = &call{done: make(chan struct{})}
		s.enqueueLocked(e, false)
	}
	s.dispatchLocked()
	if len(s.later) == 0 {
		return idle
	}
	return max(min(idle, s.later[0].next.Sub(now)), time.Millisecond)
}

// enqueueLocked has e.current begin as soon as it may.
func (s *Store) enqueueLocked(e *entry, urgent bool) {
	s.takeLocked(e)
	if s.base == nil {
		c := e.current
		e.current = nil
		c.fail(errStopped)
		s.putLocked(e)
		return
	}
	if urgent {
		s.urgent = append(s.urgent, e)
		s.dispatchLocked()
		return
	}
	s.routine = append(s.routine, e)
}

// dispatchLocked starts what waits and may run.
func (s *Store) dispatchLocked() {
	if s.base == nil {
		return
	}
	s.urgent = s.startSome(s.urgent)
	s.routine = s.startSome(s.routine)
}

// startSome starts what may run and returns the rest, in order.
func (s *Store) startSome(waiting []*entry) []*entry {
	rest := waiting[:0]
	for i, e := range waiting {
		switch {
		case e.current == nil || e.cancel != nil:
			// It was asked for twice.
		case e.gone:
			e.current.fail(errNotServed)
			e.current = nil
		case s.mayStart(e):
			s.startLocked(e, len(rest) > 0 || i < len(waiting)-1)
		default:
			rest = append(rest, e)
		}
	}
	clear(waiting[len(rest):])
	return rest
}

func (s *Store) mayStart(e *entry) bool {
	return s.active < maxAtOnce && s.perServer[e.server] < maxPerServer && (e.lastErr == nil || s.distrusted < maxDistrusted)
}

func (s *Store) startLocked(e *entry, othersWait bool) {
	timeout := discoveryTimeout
	if othersWait && e.failures%patientEvery != patientEvery-1 {
		timeout = hastyTimeout
	}
	var ctx context.Context
	ctx, e.cancel = context.WithTimeout(s.base, timeout)
	e.tried = s.o.Now()
	s.active++
	s.perServer[e.server]++
	if e.distrusted = e.lastErr != nil; e.distrusted {
		s.distrusted++
	}
	c, previous, members := e.current, e.catalogue, slices.Sorted(maps.Keys(e.members))
	s.running.Go(func() { s.run(ctx, e, c, previous, members) })
}

// endLocked gives back the place of a discovery that has ended.
func (s *Store) endLocked(e *entry) {
	e.cancel()
	e.cancel = nil
	s.active--
	if s.perServer[e.server]--; s.perServer[e.server] == 0 {
		delete(s.perServer, e.server)
	}
	if e.distrusted {
		s.distrusted--
	}
	s.poke()
}

// abandonLocked tells those who wait that nothing begins any more.
func (s *Store) abandonLocked(err error) {
	for _, e := range append(s.urgent, s.routine...) {
		if e.current != nil && e.cancel == nil {
			e.current.fail(err)
			e.current = nil
			s.putLocked(e)
		}
	}
	s.urgent, s.routine = nil, nil
}

// putLocked has e wait for its time, takeLocked no longer, fixLocked for
// another one.
func (s *Store) putLocked(e *entry) {
	if !e.gone && e.index < 0 {
		heap.Push(&s.later, e)
	}
}

func (s *Store) takeLocked(e *entry) {
	if e.index >= 0 {
		heap.Remove(&s.later, e.index)
	}
}

func (s *Store) fixLocked(e *entry) {
	if e.index >= 0 {
		heap.Fix(&s.later, e.index)
	}
}

// dueHeap is a heap.Interface; every entry knows its place in it.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].next.Before(h[j].next) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push adds at the end.
func (h *dueHeap) Push(x any) {
	if e, ok := x.(*entry); ok {
		e.index = len(*h)
		*h = append(*h, e)
	}
}

// Pop takes from the end.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}
