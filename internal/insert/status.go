package insert

import "time"

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
	// PoolsWaiting and TablesWaiting are what is being waited for.
	PoolsWaiting, TablesWaiting int
}

// Status returns the worker's state now.
func (w *Worker) Status() Status {
	s := Status{HeldBytes: w.memory.Used(), PoolsWaiting: w.pools.waiting()}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.HeldChunks = len(w.held)
	s.RowsInserted, s.RowsParked = w.totals.inserted, w.totals.parked
	s.OldestUnwritten = w.oldest()
	for _, b := range w.batchers {
		if _, on := b.waits.waiting(); on {
			s.TablesWaiting++
		}
	}
	return s
}

// count counts rows that were written and rows that were parked.
func (w *Worker) count(inserted, parked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.totals.inserted += uint64(inserted)
	w.totals.parked += uint64(parked)
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
