package app

import (
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/sweep"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// windows are how long each tenant keeps its history. A rejected tenant keeps
// the window that its folder last had, all of its history when it has been
// rejected since the start; one that was removed keeps none.
type windows struct {
	mu sync.Mutex
	// last are those of the tenants that have a folder, as far as known.
	last map[tenant.ID]time.Duration
}

// adopt remembers the windows of the served tenants.
func (w *windows) adopt(registry *settings.Registry, snapshots map[tenant.ID]*settings.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := make(map[tenant.ID]time.Duration, len(snapshots))
	for _, id := range registry.Tenants() {
		if snapshot := snapshots[id]; snapshot != nil {
			last[id] = snapshot.Config.Stream.GapWindow
		} else if window, known := w.last[id]; known {
			last[id] = window
		}
	}
	w.last = last
}

// of returns the window of each tenant that has a folder.
func (w *windows) of(registry *settings.Registry) map[tenant.ID]time.Duration {
	snapshots := registry.Snapshots()
	ids := registry.Tenants()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[tenant.ID]time.Duration, len(ids))
	for _, id := range ids {
		if snapshot := snapshots[id]; snapshot != nil {
			all[id] = snapshot.Config.Stream.GapWindow
		} else if window, known := w.last[id]; known {
			all[id] = window
		} else {
			all[id] = sweep.KeepAll
		}
	}
	return all
}

// longestWindow is the longest gap window of all tenants.
func longestWindow(snapshots map[tenant.ID]*settings.Snapshot) (longest time.Duration) {
	for _, snapshot := range snapshots {
		longest = max(longest, snapshot.Config.Stream.GapWindow)
	}
	return longest
}
