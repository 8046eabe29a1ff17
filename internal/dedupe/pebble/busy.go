package pebble

import (
	"hash/maphash"
	"slices"
	"sync"
)

// busy keeps two operations from working on one key at once, without a lock
// that is held over a write to disk. Keys are taken in order, so that nobody
// waits in a circle.
type busy struct {
	seed    maphash.Seed
	stripes [64]stripe
}

type stripe struct {
	mu   sync.Mutex
	keys map[string]*holder // as many as are worked on, see maxOperations
}

// holder is who works on a key.
type holder struct {
	reserving bool
	done      chan struct{}
}

func newBusy() *busy {
	b := &busy{seed: maphash.MakeSeed()}
	for i := range b.stripes {
		b.stripes[i].keys = make(map[string]*holder)
	}
	return b
}

func (b *busy) stripe(key string) *stripe {
	return &b.stripes[maphash.String(b.seed, key)%uint64(len(b.stripes))]
}

// take returns nil when the key is h's from now on, else who has it.
func (b *busy) take(key string, h *holder) *holder {
	s := b.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.keys[key]; other != nil {
		return other
	}
	s.keys[key] = h
	return nil
}

// reserve takes keys for a Reserve and returns those it got, sorted. A key that
// another Reserve has is about to be reserved: it is left out.
func (b *busy) reserve(keys []string) (got []string, h *holder) {
	h = &holder{reserving: true, done: make(chan struct{})}
	return b.acquire(keys, h, func(other *holder) bool { return !other.reserving }), h
}

// settle takes all keys, sorted, waiting for whoever has them.
func (b *busy) settle(keys []string) (got []string, h *holder) {
	h = &holder{done: make(chan struct{})}
	return b.acquire(keys, h, func(*holder) bool { return true }), h
}

// idle takes those of the keys that nobody works on.
func (b *busy) idle(keys []string) (got []string, h *holder) {
	h = &holder{done: make(chan struct{})}
	return b.acquire(keys, h, func(*holder) bool { return false }), h
}

func (b *busy) acquire(keys []string, h *holder, wait func(other *holder) bool) []string {
	sorted := slices.Clone(keys)
	slices.Sort(sorted)
	got := sorted[:0]
	for _, key := range slices.Compact(sorted) {
		other := b.take(key, h)
		for other != nil && other != h && wait(other) {
			<-other.done
			other = b.take(key, h)
		}
		if other == nil {
			got = append(got, key)
		}
	}
	return got
}

// free gives keys back.
func (b *busy) free(keys []string, h *holder) {
	for _, key := range keys {
		s := b.stripe(key)
		s.mu.Lock()
		delete(s.keys, key)
		s.mu.Unlock()
	}
	close(h.done)
}
