// Package pebble keeps seen ids in files of this process: one store for all
// tenants.
package pebble

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// Options of New. Dir and Lease are required.
type Options struct {
	// Dir holds the files; it is created when missing and belongs to one
	// process at a time.
	Dir string
	// Lease is how long a reservation lasts.
	Lease time.Duration
	// Logger, nil for slog.Default.
	Logger *slog.Logger
	// Metrics takes the store's metrics; nil for none.
	Metrics prometheus.Registerer
	// Now is the clock of leases and retentions; nil for time.Now.
	Now func() time.Time
	// OpenInterval paces attempts to open; 0 for 5 s.
	OpenInterval time.Duration
	// Timeout bounds one call; 0 for 5 s.
	Timeout time.Duration
	// IdleAfter is when a store that no tenant asks for is closed; 0 for 10
	// minutes.
	IdleAfter time.Duration
	// SweepInterval is how often what is over is removed; 0 for an hour.
	SweepInterval time.Duration

	fs        vfs.FS
	retryFull time.Duration
}

// maxGivenUp bounds the instances that gave up in the life of a process: each
// keeps its memory, for what it was about to do cannot be known.
const maxGivenUp = 8

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.fs == nil {
		o.fs = defaultFS()
	}
	for d, to := range map[*time.Duration]time.Duration{
		&o.OpenInterval: 5 * time.Second, &o.Timeout: 5 * time.Second, &o.IdleAfter: 10 * time.Minute,
		&o.SweepInterval: time.Hour, &o.retryFull: 200 * time.Millisecond,
	} {
		if *d <= 0 {
			*d = to
		}
	}
	return o
}

// Store is a dedupe.Store. It is open while it is wanted, and for some time
// after a call that nobody wanted it for.
type Store struct {
	o       Options
	metrics *metrics
	count   *count

	mu       sync.Mutex
	instance *instance
	lock     io.Closer     // keeps other processes out; nil when it is not held
	opening  chan struct{} // closed when the attempt under way has ended; nil when there is none
	fault    error         // of the last attempt
	tried    time.Time
	wanted   bool
	closed   bool
	used     time.Time // of the last call
	givenUp  int
}

var (
	_ dedupe.Store    = (*Store)(nil)
	_ dedupe.Budgeted = (*Store)(nil)
)

// New builds a Store and touches no file.
func New(o Options) *Store {
	o = o.withDefaults()
	s := &Store{o: o, count: newCount()}
	s.metrics = newMetrics(o.Metrics, s.isOpen)
	return s
}

var errClosed = fmt.Errorf("%w: it is closed", dedupe.ErrUnavailable)

// Want implements dedupe.Store. A store that is wanted and not open is opened
// now, whenever it was last tried.
func (s *Store) Want(ctx context.Context, wanted bool) error {
	s.mu.Lock()
	s.wanted = wanted
	s.tried = time.Time{}
	s.mu.Unlock()
	if !wanted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	in, err := s.enter(ctx)
	if err != nil {
		return err
	}
	s.leave(in)
	return nil
}

// do runs one call on the open store.
func (s *Store) do(ctx context.Context, op func(*instance) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	in, err := s.enter(ctx)
	if err != nil {
		return err
	}
	return in.run(ctx, func() error { return op(in) }, func() { s.leave(in) })
}

// enter returns the open instance, which stays open until leave.
func (s *Store) enter(ctx context.Context) (*instance, error) {
	s.mu.Lock()
	for waited := false; ; waited = true {
		if in := s.instance; in != nil && !s.closed && !in.isBroken() {
			in.active++
			s.used = time.Now()
			s.mu.Unlock()
			return in, nil
		}
		if waited && s.fault != nil {
			defer s.mu.Unlock()
			return nil, s.fault
		}
		attempt, err := s.attempt()
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-attempt:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: opening it takes long: %w", dedupe.ErrUnavailable, context.Cause(ctx))
		}
		s.mu.Lock()
	}
}

func (s *Store) leave(in *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.active--
	s.used = time.Now()
}

func (s *Store) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instance != nil && !s.instance.isBroken()
}
