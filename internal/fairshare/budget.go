// Package fairshare shares bounded memory among tenants.
package fairshare

import (
	"sync"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Budget bounds bytes per tenant and in total. Others' use never stops a tenant
// for ever: below floor the total does not count, and one that holds nothing may
// take one item of any size. The total is exceeded by at most that per tenant.
type Budget struct {
	perTenant, total, floor int64

	mu      sync.Mutex
	used    int64
	tenants map[tenant.ID]int64
	freed   chan struct{} // closed when something is given back; nil when nobody waits
	waiting map[tenant.ID]int
}

// New builds a Budget of perTenant bytes for one tenant and total for all, of
// which floor bytes are every tenant's whatever the others hold.
func New(perTenant, total, floor int64) *Budget {
	return &Budget{
		perTenant: perTenant, total: total, floor: floor,
		tenants: make(map[tenant.ID]int64), waiting: make(map[tenant.ID]int),
	}
}

// Try takes n bytes if there is room.
func (b *Budget) Try(t tenant.ID, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(t, n)
}

func (b *Budget) take(t tenant.ID, n int64) bool {
	held := b.tenants[t]
	if held > 0 && (held+n > b.perTenant || b.used+n > b.total && held+n > b.floor) {
		return false
	}
	b.tenants[t] = held + n
	b.used += n
	return true
}

// TryStrict takes n bytes if there is room, with no allowance beyond the total.
func (b *Budget) TryStrict(t tenant.ID, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used > 0 && b.used+n > b.total {
		return false
	}
	return b.take(t, n)
}

// Wait takes n bytes, waiting for room; false when stop closes first.
func (b *Budget) Wait(t tenant.ID, n int64, stop <-chan struct{}) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[t]++
	defer b.endWait(t)
	for !b.take(t, n) {
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
			b.mu.Lock()
		case <-stop:
			b.mu.Lock()
			return false
		}
	}
	return true
}

func (b *Budget) endWait(t tenant.ID) {
	if b.waiting[t]--; b.waiting[t] == 0 {
		delete(b.waiting, t)
	}
}

// Pressed reports whether someone waits for the tenant's share.
func (b *Budget) Pressed(t tenant.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting[t] > 0
}

// Release gives n bytes back.
func (b *Budget) Release(t tenant.ID, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.tenants[t] -= n; b.tenants[t] == 0 {
		delete(b.tenants, t)
	}
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// Held returns the bytes taken in total.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
