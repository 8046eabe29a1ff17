package api

import (
	"sync"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// operatorBodies is under what the bodies of ops routes are counted.
const operatorBodies tenant.ID = ""

// bodyMemory bounds the bodies that are held at once, in bytes, over all
// tenants. A tenant that holds some may take more while it then holds no more
// than was free before: one that takes all it can get leaves half, the next one
// half of that, and there is room for a tenant that holds nothing.
type bodyMemory struct {
	total int64

	mu   sync.Mutex
	used int64
	held map[tenant.ID]int64 // of tenants that hold any
}

func newBodyMemory(total int64) *bodyMemory {
	return &bodyMemory{total: total, held: make(map[tenant.ID]int64)}
}

func (m *bodyMemory) take(id tenant.ID, n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	free, held := m.total-m.used, m.held[id]
	if n > free || held > 0 && held+n > free {
		return false
	}
	m.used += n
	m.held[id] = held + n
	return true
}

func (m *bodyMemory) release(id tenant.ID, n int64) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	if m.held[id] -= n; m.held[id] == 0 {
		delete(m.held, id)
	}
}
