// Package natskv keeps leases and membership in a KV bucket of a NATS cluster.
//
// A holder renews its lease every two seconds, by changing the key at the revision
// that it knows, and stops ten seconds after the start of the last renewal that was
// confirmed, by the monotonic clock or the wall's, whichever ran further. Another
// takes the lease over once it saw the key stand still for fifteen seconds of its
// own monotonic clock. So two never both hold, as long as no clock runs by half
// faster than another, however the wall clock is set, requests are delayed or
// answers lost. What nothing tells is a wall clock that is set back while the
// machine under a virtual one stops it: who writes elsewhere has the token.
package natskv

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/coord"
)

var _ coord.Coordinator = (*Coordinator)(nil)

// Options are what a Coordinator is made with.
type Options struct {
	// Bucket is where leases are kept; see On.
	Bucket Bucket
	// Instance names this process to people who look into the bucket.
	Instance string
	Logger   *slog.Logger
	Metrics  prometheus.Registerer // nil counts nowhere
	// Clock is nil for the machine's.
	Clock Clock
}

// On is the bucket called name, which exists, of the cluster that nc is connected
// to. The caller closes nc after the Coordinator.
func On(nc *nats.Conn, name string) (Bucket, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	return natsBucket{nc: nc, js: js, name: name}, nil
}

// Coordinator is the coord.Coordinator of one of many processes.
type Coordinator struct {
	o        Options
	turns    *coord.Turns
	failures prometheus.Counter
	holds    *prometheus.GaugeVec
}

// New returns a Coordinator; Close ends it. Nothing is asked of the bucket yet.
func New(o Options) *Coordinator {
	if o.Clock == nil {
		o.Clock = systemClock{time.Now()}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	auto := promauto.With(o.Metrics)
	return &Coordinator{
		o: o, turns: coord.NewTurns(),
		failures: auto.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_coord_failures_total", Help: "Requests to the bucket of leases that failed.",
		}),
		holds: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "wavehouse_coord_held", Help: "Leases and memberships that this process holds.",
		}, []string{"lease"}),
	}
}

// mine is a record of this process that no other equals.
func (c *Coordinator) mine() record { return record{Holder: c.o.Instance, Nonce: rand.Text()} }

// Elect implements coord.Coordinator.
func (c *Coordinator) Elect(ctx context.Context, name string, run func(context.Context, coord.Token) error) error {
	ctx, done, err := c.turns.Take(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	for {
		h, err := c.newLease("lease."+name, c.mine()).take(ctx)
		if err != nil {
			return fmt.Errorf("wait for lease %q: %w", name, err)
		}
		if err, done := c.under(ctx, name, h, run); done {
			return err
		}
	}
}

// under calls run while the lease is held; done is false when it was lost.
func (c *Coordinator) under(ctx context.Context, name string, h *held, run func(context.Context, coord.Token) error) (err error, done bool) {
	c.holds.WithLabelValues(name).Set(1)
	defer c.holds.WithLabelValues(name).Set(0)
	go h.keep()
	err = run(h, coord.Token(h.token))
	lost := errors.Is(context.Cause(h), errLost)
	h.resign()
	if !lost || ctx.Err() != nil {
		return err, true
	}
	c.o.Logger.Warn("a lease was lost; waiting for it again", "lease", name, "cause", context.Cause(h))
	return nil, false
}

// Close implements coord.Coordinator.
func (c *Coordinator) Close(ctx context.Context) error { return c.turns.Close(ctx) }

// sleep waits; an error is why ctx ended.
func (c *Coordinator) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-c.o.Clock.After(d):
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Coordinator) failed(err error) {
	c.failures.Inc()
	c.o.Logger.Debug("the bucket of leases does not answer", "error", err)
}
