package natskv

import (
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// maxHeld bounds the reservations that are remembered, some 200 bytes each. Those
// beyond it are read before they are committed.
const maxHeld = 50_000

// held remembers at which revisions this process reserved keys.
type held struct {
	mu  sync.Mutex
	all map[heldKey]reserved
}

type heldKey struct {
	owner dedupe.Owner
	key   string
}

type reserved struct {
	revision uint64
	end      time.Time // of the lease
}

func newHeld() *held { return &held{all: make(map[heldKey]reserved)} }

func (h *held) add(o dedupe.Owner, key string, r reserved) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) < maxHeld {
		h.all[heldKey{o, key}] = r
	}
}

// take forgets a reservation; ok is false for one that is not known.
func (h *held) take(o dedupe.Owner, key string) (revision uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.all[heldKey{o, key}]
	delete(h.all, heldKey{o, key})
	return r.revision, ok
}

// sweep forgets the reservations that have lapsed.
func (h *held) sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, r := range h.all {
		if now.After(r.end) {
			delete(h.all, k)
		}
	}
}
