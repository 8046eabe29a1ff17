package dedupe

import (
	"hash/maphash"
	"sync"
	"time"
)

// maxHeld bounds the reservations that are remembered, some 100 bytes each.
const maxHeld = 100_000

// Held remembers what this process reserved, and something about each: while a
// lease lasts nobody else touches the id. Those beyond a bound are not remembered.
type Held[V any] struct {
	seed maphash.Seed

	mu  sync.Mutex
	all map[heldKey]holding[V]
}

type heldKey struct {
	owner Owner
	key   uint64 // a hash
}

type holding[V any] struct {
	end   time.Time // of the lease
	about V
}

// NewHeld remembers nothing yet.
func NewHeld[V any]() *Held[V] {
	return &Held[V]{seed: maphash.MakeSeed(), all: make(map[heldKey]holding[V])}
}

func (h *Held[V]) of(o Owner, key string) heldKey { return heldKey{o, maphash.String(h.seed, key)} }

// Add remembers a reservation until the end of its lease.
func (h *Held[V]) Add(o Owner, key string, end time.Time, about V) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) < maxHeld {
		h.all[h.of(o, key)] = holding[V]{end, about}
	}
}

// Take forgets a reservation, and says what is known of it; ok is false for one that
// does not last until at.
func (h *Held[V]) Take(o Owner, key string, at time.Time) (about V, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.of(o, key)
	known, ok := h.all[k]
	delete(h.all, k)
	return known.about, ok && at.Before(known.end)
}

// Sweep forgets the reservations that have lapsed.
func (h *Held[V]) Sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, known := range h.all {
		if !now.Before(known.end) {
			delete(h.all, k)
		}
	}
}
