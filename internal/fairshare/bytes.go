// Package fairshare shares bounded memory among tenants.
package fairshare

import (
	"context"
	"slices"
	"sync"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Bytes are shared by one rule: a tenant may hold as much as is free beside it,
// and no more than its share. So a tenant that takes all it can get leaves half,
// the next one half of that, and there is always room for one that holds
// nothing. It is safe for concurrent use.
type Bytes struct {
	share, total int64

	mu      sync.Mutex
	used    int64
	held    map[tenant.ID]*int64 // of tenants that hold any, and of maxIdle that did
	waiting map[tenant.ID]int
	given   chan struct{} // closed when something is given back; nil when nobody waits
	queue   []*waiter     // of TakeWithin, the oldest first
}

// maxIdle bounds the tenants that are remembered without holding anything: most take
// and give back again at once.
const maxIdle = 64

// maxQueue bounds those who wait in TakeWithin.
const maxQueue = 1024

// waiter is one that waits for n bytes. Whoever gives them back takes them for it
// and closes got.
type waiter struct {
	tenant tenant.ID
	n      int64
	got    chan struct{}
}

// New builds Bytes of total bytes, of which a tenant may hold share.
func New(share, total int64) *Bytes {
	return &Bytes{
		share: share, total: total,
		held: make(map[tenant.ID]*int64), waiting: make(map[tenant.ID]int),
	}
}

// Take takes n bytes if the rule allows it, and if they are free.
func (b *Bytes) Take(t tenant.ID, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.takeFree(t, n)
}

func (b *Bytes) takeFree(t tenant.ID, n int64) bool {
	return n <= b.total-b.used && b.take(t, n)
}

// TakeWithin is Take that waits for room until ctx ends. It does not wait for what
// can never be had, nor where too many wait.
func (b *Bytes) TakeWithin(ctx context.Context, t tenant.ID, n int64) bool {
	b.mu.Lock()
	taken := b.takeFree(t, n)
	if taken || n > b.total || len(b.queue) >= maxQueue {
		b.mu.Unlock()
		return taken
	}
	w := &waiter{tenant: t, n: n, got: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.mu.Unlock()
	select {
	case <-w.got:
		return true
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.queue, w)
	if at < 0 {
		return true // it came at the last moment
	}
	b.queue = slices.Delete(b.queue, at, at+1)
	return false
}

// serve gives those who wait what is free now.
func (b *Bytes) serve() {
	b.queue = slices.DeleteFunc(b.queue, func(w *waiter) bool {
		if !b.takeFree(w.tenant, w.n) {
			return false
		}
		close(w.got)
		return true
	})
}

// TakeFirst is Take, but who holds nothing may always take one item of any size.
// So total is exceeded by one item of each tenant at most.
func (b *Bytes) TakeFirst(t tenant.ID, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(t, n)
}

func (b *Bytes) take(t tenant.ID, n int64) bool {
	held := b.held[t]
	if held == nil {
		held = new(int64)
		b.held[t] = held
	}
	if *held > 0 && *held+n > min(b.share, b.total-b.used) {
		return false
	}
	*held += n
	b.used += n
	return true
}

// Wait is TakeFirst that waits for room; false when stop closes first.
func (b *Bytes) Wait(t tenant.ID, n int64, stop <-chan struct{}) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[t]++
	defer b.endWait(t)
	for !b.take(t, n) {
		if b.given == nil {
			b.given = make(chan struct{})
		}
		given := b.given
		b.mu.Unlock()
		select {
		case <-given:
			b.mu.Lock()
		case <-stop:
			b.mu.Lock()
			return false
		}
	}
	return true
}

func (b *Bytes) endWait(t tenant.ID) {
	if b.waiting[t]--; b.waiting[t] == 0 {
		delete(b.waiting, t)
	}
}

// Wanted reports whether someone waits for bytes of the tenant.
func (b *Bytes) Wanted(t tenant.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting[t] > 0
}

// Give gives n bytes back.
func (b *Bytes) Give(t tenant.ID, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	held := b.held[t]
	if *held -= n; *held == 0 && len(b.held) > maxIdle {
		delete(b.held, t)
	}
	if len(b.queue) > 0 {
		b.serve()
	}
	if b.given != nil {
		close(b.given)
		b.given = nil
	}
}

// Used returns the bytes taken in total.
func (b *Bytes) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
