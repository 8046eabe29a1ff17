// Package natskv keeps seen ids in a KV bucket of a NATS cluster, which many
// processes share.
package natskv

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/memo"
)

// Options of New. Bucket and Lease are required.
type Options struct {
	// Bucket is its name. It is of the operator's making.
	Bucket string
	// Lease is how long a reservation lasts, in whole seconds.
	Lease time.Duration
	// Logger, nil for slog.Default.
	Logger *slog.Logger
	// Metrics takes the store's metrics; nil for none.
	Metrics prometheus.Registerer
	// Timeout bounds one call, which is made of many requests; 0 is 5 s.
	Timeout time.Duration

	recheck time.Duration // while something is wrong about the bucket
}

const (
	defaultTimeout = 5 * time.Second
	defaultRecheck = 5 * time.Second
	// checkEvery is how often a bucket that is right is looked at.
	checkEvery = 5 * time.Minute
	// maxWaited bounds the ids of others that are remembered, because somebody
	// waits for them.
	maxWaited = 20_000
)

// Store is a dedupe.Store. It has no clock: the servers remove what is over.
type Store struct {
	o       Options
	js      jetstream.JetStream
	metrics *metrics
	guard   dedupe.Guard
	held    *held
	// waited holds until when an id may be another's. Asking for one again is a
	// read.
	waited *memo.Memo[string, time.Time]

	checking sync.Mutex // held by who looks at the bucket
	mu       sync.Mutex
	wanted   bool
	verdict  verdict
	checked  time.Time // when the bucket was looked at last
	handle   jetstream.Stream
}

var _ dedupe.Store = (*Store)(nil)

// New builds a Store on a connection, which the caller closes after it. It asks
// nobody yet.
func New(nc *nats.Conn, o Options) (*Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("the store of seen ids in NATS: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.recheck = cmp.Or(o.recheck, defaultRecheck)
	s := &Store{
		o: o, js: js, held: newHeld(), waited: memo.New[string, time.Time](maxWaited), guard: dedupe.Guard{Timeout: o.Timeout},
		verdict: verdict{fault: fmt.Errorf("%w: the bucket %s has not been looked at yet", dedupe.ErrUnavailable, o.Bucket)},
	}
	s.metrics = newMetrics(o.Metrics, s)
	return s, nil
}

// Want implements dedupe.Store.
func (s *Store) Want(ctx context.Context, wanted bool) error {
	s.mu.Lock()
	s.wanted = wanted
	s.mu.Unlock()
	if !wanted {
		return nil
	}
	return s.guard.Force(ctx, s.look)
}

// Run implements dedupe.Store: it looks at the bucket until it is right, and now
// and then afterwards.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(s.o.recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.held.sweep(time.Now())
			if s.due() {
				bounded, cancel := context.WithTimeout(ctx, s.o.Timeout)
				_ = s.look(bounded) // it is logged and remembered
				cancel()
			}
		}
	}
}

func (s *Store) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted && (s.verdict.fault != nil || s.verdict.advice != nil || time.Since(s.checked) >= checkEvery)
}

// Close implements dedupe.Store.
func (s *Store) Close(ctx context.Context) error { return s.guard.Close(ctx) }

// do runs one call once the bucket is known to be right.
func (s *Store) do(ctx context.Context, op func(context.Context) error) error {
	return s.guard.Do(ctx, func(ctx context.Context) error {
		if err := s.open(ctx); err != nil {
			return err
		}
		return op(ctx)
	})
}

func (s *Store) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict.fault == nil
}

func (s *Store) isRight() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict == verdict{}
}
