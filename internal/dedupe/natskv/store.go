// Package natskv keeps seen ids in a KV bucket of a NATS cluster, which many
// processes share.
package natskv

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
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
	// maxWaited bounds the ids of others that are remembered, because somebody
	// waits for them.
	maxWaited = 20_000
)

// Store is a dedupe.Store. It has no clock: the servers remove what is over.
type Store struct {
	o       Options
	js      jetstream.JetStream
	metrics *metrics
	bucket  *dedupe.Inspected
	// held are the revisions of reserved keys.
	held *dedupe.Held[uint64]
	// waited holds until when an id may be another's. Asking for one again is a
	// read.
	waited *memo.Memo[string, time.Time]

	handle atomic.Pointer[jetstream.Stream] // nil before the bucket was found
}

var _ dedupe.Store = (*Store)(nil)

// New builds a Store on a connection, which the caller closes after it. It asks
// nobody yet.
func New(nc *nats.Conn, o Options) (*Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("the store of seen ids in NATS: %w", err)
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.recheck = cmp.Or(o.recheck, defaultRecheck)
	s := &Store{o: o, js: js, held: dedupe.NewHeld[uint64](), waited: memo.New[string, time.Time](maxWaited)}
	s.bucket = dedupe.NewInspected(dedupe.Inspection{
		Place: "bucket", Name: o.Bucket, Look: s.look, Timeout: o.Timeout, Recheck: o.recheck, Logger: o.Logger,
	})
	s.metrics = newMetrics(o.Metrics, s)
	return s, nil
}

// Want implements dedupe.Store.
func (s *Store) Want(ctx context.Context, wanted bool) error { return s.bucket.Want(ctx, wanted) }

// Run implements dedupe.Store: it looks at the bucket until it is right, and now and
// then afterwards.
func (s *Store) Run(ctx context.Context) error {
	s.bucket.Run(ctx, func() { s.held.Sweep(time.Now()) })
	return nil
}

// Close implements dedupe.Store.
func (s *Store) Close(ctx context.Context) error { return s.bucket.Close(ctx) }
