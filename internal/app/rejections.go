package app

import (
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// rejections are since when each rejected tenant is, as far as this process saw
// it: its waiting rows are not parked for a while, in case of a mistyped key.
type rejections struct {
	mu    sync.Mutex
	since map[tenant.ID]time.Time
}

// adopt notes which of the tenants that have a folder are not served.
func (r *rejections) adopt(registry *settings.Registry, snapshots map[tenant.ID]*settings.Snapshot, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := make(map[tenant.ID]time.Time)
	for _, id := range registry.Tenants() {
		if snapshots[id] != nil {
			continue
		}
		since[id] = now
		if before, known := r.since[id]; known {
			since[id] = before
		}
	}
	r.since = since
}

// within reports whether the tenant has been rejected for less than grace.
func (r *rejections) within(id tenant.ID, grace time.Duration, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, rejected := r.since[id]
	return rejected && now.Sub(since) < grace
}
