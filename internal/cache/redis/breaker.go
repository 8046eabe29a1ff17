package redis

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostFailures in a row open the breaker.
	mostFailures = 5
	// quiet is how long the same cause is not logged again.
	quiet = time.Minute
)

// errOpen: the breaker is open.
var errOpen = errors.New("the breaker is open")

// breaker keeps operations from a server that fails. A probe closes it again.
type breaker struct {
	logger *slog.Logger
	open   atomic.Bool

	mu       sync.Mutex
	failures int
	last     error // why it is open, for people; nil while it is closed
	cause    string
	logged   time.Time
}

// failed notes a failure.
func (b *breaker) failed(err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	means := refused(err)
	if b.failures < mostFailures && means == "" {
		return
	}
	b.last = problem(err)
	b.open.Store(true)
	if b.logged.IsZero() || means != b.cause || now.Sub(b.logged) > quiet {
		b.cause, b.logged = means, now
		b.logger.Warn("Redis is not used until it takes writes again; queries go to ClickHouse", "error", b.last)
	}
}

// worked notes a success. A probe's closes the breaker.
func (b *breaker) worked(probe bool) {
	if !probe && b.open.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.last = 0, nil
	if b.open.Swap(false) {
		b.logger.Info("Redis is used again")
	}
}

// why is why it is open; nil while it is closed.
func (b *breaker) why() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
