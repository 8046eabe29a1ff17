package insert

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Status is the worker's state.
type Status struct {
	// HeldBytes and HeldChunks are in hand, not yet written.
	HeldBytes  int64
	HeldChunks int
	// OldestUnwritten is when the gate took the oldest row in hand; zero when
	// none is.
	OldestUnwritten time.Time
	// RowsInserted and RowsParked count since the start.
	RowsInserted, RowsParked uint64
	// Backoffs are the pools and tables that are being waited for.
	Backoffs []BackoffStatus
}

// BackoffStatus is one wait.
type BackoffStatus struct {
	// Pool is the pool's name; "" when the wait is for one table.
	Pool   string
	Tenant tenant.ID
	Table  string
	Since  time.Time
	// Err is the last failure.
	Err string
}

// Status returns the worker's state now.
func (w *Worker) Status() Status {
	s := Status{HeldBytes: w.memory.Used(), Backoffs: w.pools.status()}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.HeldChunks = len(w.held)
	s.RowsInserted, s.RowsParked = w.totals.inserted, w.totals.parked
	s.OldestUnwritten = w.oldest()
	for topic, b := range w.batchers {
		if now := b.waits.window(); now.open {
			s.Backoffs = append(s.Backoffs, BackoffStatus{Tenant: topic.Tenant, Table: topic.Table, Since: now.since, Err: now.reason})
		}
	}
	return s
}

func (w *Worker) oldest() time.Time {
	var oldest time.Time
	for _, c := range w.held {
		if oldest.IsZero() || c.header.Received.Before(oldest) {
			oldest = c.header.Received
		}
	}
	return oldest
}
