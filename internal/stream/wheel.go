package stream

import (
	"context"
	"sync"
	"time"
)

// maxBuckets bounds over how many moments keepalives are spread.
const maxBuckets = 1000

// wheel sends every connection its keepalive from one goroutine. Connections
// with the same rhythm share a ring of buckets, one of which is due at a time.
type wheel struct {
	now     func() time.Time
	changed chan struct{} // capacity 1: a ring was added

	mu    sync.Mutex
	rings map[rhythm]*ring
}

type rhythm struct {
	interval time.Duration
	count    int
}

type ring struct {
	rhythm
	buckets []map[*seat]struct{}
	seats   int
	due     int // the bucket that comes next
	at      time.Time
	fill    int // the bucket that the next seat takes
}

// seat is one connection's moment in a ring, which the wheel's mu guards; it has
// none once it was removed.
type seat struct {
	s      *subscriber
	ring   *ring
	bucket int
}

func newWheel(now func() time.Time) *wheel {
	return &wheel{now: now, changed: make(chan struct{}, 1), rings: make(map[rhythm]*ring)}
}

func (r rhythm) step() time.Duration { return max(r.interval/time.Duration(r.count), time.Millisecond) }

// add seats s.
func (w *wheel) add(s *subscriber, key rhythm) *seat {
	at := &seat{s: s}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sitLocked(at, key)
	return at
}

// move gives a seat another rhythm, unless it has been removed.
func (w *wheel) move(at *seat, key rhythm) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.ring == nil || at.ring.rhythm == key {
		return
	}
	w.leaveLocked(at)
	w.sitLocked(at, key)
}

func (w *wheel) sitLocked(at *seat, key rhythm) {
	r, ok := w.rings[key]
	if !ok {
		r = &ring{rhythm: key, buckets: make([]map[*seat]struct{}, key.count), at: w.now().Add(key.step())}
		w.rings[key] = r
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	at.ring, at.bucket = r, r.fill
	if r.buckets[r.fill] == nil {
		r.buckets[r.fill] = make(map[*seat]struct{})
	}
	r.buckets[r.fill][at] = struct{}{}
	r.fill = (r.fill + 1) % key.count
	r.seats++
}

func (w *wheel) remove(at *seat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveLocked(at)
}

func (w *wheel) leaveLocked(at *seat) {
	r := at.ring
	at.ring = nil
	delete(r.buckets[at.bucket], at)
	if r.seats--; r.seats == 0 {
		delete(w.rings, r.rhythm)
	}
}

// turn signals what is due and returns how long to wait for the next.
func (w *wheel) turn() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, wait := w.now(), time.Hour
	for _, r := range w.rings {
		for !r.at.After(now) {
			for at := range r.buckets[r.due] {
				at.s.keepalive.Store(true)
				at.s.signal()
			}
			r.due = (r.due + 1) % len(r.buckets)
			r.at = r.at.Add(r.step())
			if now.Sub(r.at) > r.interval { // the clock jumped: once is enough
				r.at = now.Add(r.step())
			}
		}
		wait = min(wait, r.at.Sub(now))
	}
	return wait
}

// run turns the wheel until ctx ends.
func (w *wheel) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-timer.C:
		}
		timer.Reset(w.turn())
	}
}
