package limit

import (
	"sync"
	"time"
)

// concurrentWait is the advice to a query that is one too many: when another one
// ends cannot be known.
const concurrentWait = time.Second

// limited is one tenant with limits.
type limited struct {
	mu          sync.Mutex // held for a few additions
	rows, bytes bucket
	queries     bucket
	concurrent  int // 0 is no limit
	running     int
}

// configure changes the limits in place.
func (t *limited) configure(c Config, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := 1.0
	if c.Burst > 0 && c.RowsPerSecond > 0 {
		seconds = float64(c.Burst) / float64(c.RowsPerSecond)
	}
	t.rows.configure(float64(c.RowsPerSecond), seconds, now)
	t.bytes.configure(float64(c.BytesPerSecond), seconds, now)
	t.queries.configure(float64(c.QueriesPerSecond), 1, now)
	t.concurrent = c.ConcurrentQueries
}

func (t *limited) ingest(rows int, bytes int64, now time.Time) *Exceeded {
	t.mu.Lock()
	defer t.mu.Unlock()
	rowsWait, bytesWait := t.rows.wait(now), t.bytes.wait(now)
	switch {
	case rowsWait > 0 && rowsWait >= bytesWait:
		return &Exceeded{Limit: RowsPerSecond, Key: "ingest.limits." + RowsPerSecond, Value: int64(t.rows.rate), Wait: rowsWait}
	case bytesWait > 0:
		return &Exceeded{Limit: BytesPerSecond, Key: "ingest.limits." + BytesPerSecond, Value: int64(t.bytes.rate), Wait: bytesWait}
	}
	t.rows.take(float64(rows))
	t.bytes.take(float64(bytes))
	return nil
}

func (t *limited) query(now time.Time) (release func(), exceeded *Exceeded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.concurrent > 0 && t.running >= t.concurrent {
		return nil, &Exceeded{Limit: Concurrent, Key: "query.limits." + Concurrent, Value: int64(t.concurrent), Wait: concurrentWait}
	}
	if wait := t.queries.wait(now); wait > 0 {
		return nil, &Exceeded{Limit: QueriesPerSecond, Key: "query.limits." + QueriesPerSecond, Value: int64(t.queries.rate), Wait: wait}
	}
	t.queries.take(1)
	// Counted without a limit too: one may be set while the query runs.
	t.running++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.running--
	}), nil
}
