// Package dynamo keeps seen ids in a table of DynamoDB, which many processes
// share.
package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/memo"
)

// Options of New. Table and Lease are required.
type Options struct {
	// Table is the table's name. It is of the operator's making.
	Table string
	// Region, "" for the environment's.
	Region string
	// Endpoint replaces AWS's own; "" does not.
	Endpoint string
	// CreateTable has a table made that is not there. It is for development: it
	// needs an Endpoint.
	CreateTable bool
	// Lease is how long a reservation lasts.
	Lease time.Duration
	// Logger, nil for slog.Default.
	Logger *slog.Logger
	// Metrics takes the store's metrics; nil for none.
	Metrics prometheus.Registerer
	// Now is the clock of leases and retentions; nil is this machine's, which
	// DynamoDB's answers correct.
	Now func() time.Time
	// Timeout bounds one call, which is made of many requests; 0 is 5 s.
	Timeout time.Duration

	attempt     time.Duration // bounds one attempt of a request
	recheck     time.Duration // while something is wrong about the table
	credentials aws.CredentialsProvider
}

const (
	defaultTimeout = 5 * time.Second
	defaultAttempt = 2 * time.Second
	defaultRecheck = 5 * time.Second
	// maxWaited bounds the ids of others that are remembered, because somebody
	// waits for them.
	maxWaited = 20_000
)

// Store is a dedupe.Store.
type Store struct {
	o       Options
	client  *dynamodb.Client
	metrics *metrics
	clock   *clock
	table   *dedupe.Inspected
	// held are reservations that may be committed without a condition, many in a
	// request.
	held *dedupe.Held[struct{}]
	// waited holds until when an id is another's. Asking for one again costs a
	// read, where a claim would cost a write.
	waited *memo.Memo[string, time.Time]
}

var _ dedupe.Store = (*Store)(nil)

// New builds a Store and asks nobody yet.
func New(ctx context.Context, o Options) (*Store, error) {
	s := &Store{
		clock: &clock{own: o.Now, follow: o.Now == nil}, held: dedupe.NewHeld[struct{}](), waited: memo.New[string, time.Time](maxWaited),
	}
	if o.Now == nil {
		s.clock.own = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.attempt = cmp.Or(o.attempt, defaultAttempt)
	o.recheck = cmp.Or(o.recheck, defaultRecheck)
	s.o = o
	s.table = dedupe.NewInspected(dedupe.Inspection{
		Place: "table", Name: o.Table, Look: s.look, Timeout: o.Timeout, Recheck: o.recheck, Logger: o.Logger,
	})
	s.metrics = newMetrics(o.Metrics, s)
	var err error
	if s.client, err = newClient(ctx, o, s); err != nil {
		return nil, fmt.Errorf("the store of seen ids in DynamoDB: %w", err)
	}
	return s, nil
}

// Want implements dedupe.Store. The table is looked at whenever it was not right.
func (s *Store) Want(ctx context.Context, wanted bool) error { return s.table.Want(ctx, wanted) }

// Run implements dedupe.Store: it looks at the table until it is right, and now and
// then afterwards.
func (s *Store) Run(ctx context.Context) error {
	s.table.Run(ctx, func() { s.held.Sweep(s.clock.now()) })
	return nil
}

// Close implements dedupe.Store.
func (s *Store) Close(ctx context.Context) error { return s.table.Close(ctx) }
