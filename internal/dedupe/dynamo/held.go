package dynamo

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// maxHeld bounds the reservations that are remembered, some 100 bytes each. Those
// beyond it are committed one by one.
const maxHeld = 100_000

// held remembers what this process reserved: while a lease lasts nobody else
// touches the item, so that it may be committed without a condition, many in a
// request.
type held struct {
	seed maphash.Seed

	mu   sync.Mutex
	ends map[heldKey]time.Time // of leases
}

type heldKey struct {
	owner dedupe.Owner
	key   uint64 // a hash
}

func newHeld() *held { return &held{seed: maphash.MakeSeed(), ends: make(map[heldKey]time.Time)} }

func (h *held) of(o dedupe.Owner, key string) heldKey {
	return heldKey{o, maphash.String(h.seed, key)}
}

func (h *held) add(o dedupe.Owner, key string, end time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ends) < maxHeld {
		h.ends[h.of(o, key)] = end
	}
}

// take forgets a reservation and reports whether it lasts until at.
func (h *held) take(o dedupe.Owner, key string, at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.of(o, key)
	end, ok := h.ends[k]
	delete(h.ends, k)
	return ok && at.Before(end)
}

// sweep forgets the reservations that have lapsed.
func (h *held) sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, end := range h.ends {
		if !now.Before(end) {
			delete(h.ends, k)
		}
	}
}
