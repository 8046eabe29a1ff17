// Package sweep forgets the history that nobody can ask for any more.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/coord"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// KeepAll as a gap window keeps a tenant's whole history.
const KeepAll time.Duration = -1

// Elector runs something in one process at a time; coord's is one.
type Elector interface {
	Elect(ctx context.Context, name string, run func(ctx context.Context, token coord.Token) error) error
}

// Options are what a Sweeper is made with.
type Options struct {
	Queue mq.Purger
	Coord Elector
	// Windows is the gap window of every tenant that has a folder, rejected
	// ones with the window they last had or KeepAll. A tenant with a queue that
	// is not in it is removed and keeps no history.
	Windows func() map[tenant.ID]time.Duration
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Every is the time between sweeps; 0 is one minute.
	Every time.Duration
}

// Sweeper removes from the queue what is written and no stream can ask for.
type Sweeper struct {
	o      Options
	purged prometheus.Counter
}

const sweeperLease = "sweeper"

// New builds a Sweeper; Run does the work.
func New(o Options) *Sweeper {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Sweeper{o: o, purged: promauto.With(o.Metrics).NewCounter(prometheus.CounterOpts{
		Name: "wavehouse_sweeper_chunks_purged_total",
		Help: "Chunks removed from the queue's history.",
	})}
}

// Run sweeps under the lease until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	err := s.o.Coord.Elect(ctx, sweeperLease, s.loop)
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

// loop needs no fence: what a purge removes is written and old, whoever asks.
func (s *Sweeper) loop(ctx context.Context, _ coord.Token) error {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	for {
		s.Sweep(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Sweep purges once. A failure is logged: the next sweep makes up for it.
func (s *Sweeper) Sweep(ctx context.Context) {
	windows := s.o.Windows()
	for after := tenant.ID(""); ; {
		ids, err := s.o.Queue.Tenants(ctx, after, tenantPage)
		if err != nil {
			s.failed(ctx, err)
			return
		}
		if cutoffs := s.cutoffs(ids, windows); len(cutoffs) > 0 {
			s.purge(ctx, cutoffs)
		}
		if len(ids) < tenantPage {
			return
		}
		after = ids[len(ids)-1]
	}
}

// tenantPage is how many tenants' history is purged at a time.
const tenantPage = 1000

func (s *Sweeper) purge(ctx context.Context, cutoffs map[tenant.ID]time.Time) {
	purged, err := s.o.Queue.Purge(ctx, cutoffs)
	for id, n := range purged {
		s.purged.Add(float64(n))
		s.o.Logger.Debug("purged history", "tenant", id, "chunks", n)
	}
	if err != nil {
		s.failed(ctx, err)
	}
}

func (s *Sweeper) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.o.Logger.Error("cannot purge the queue's history", "error", err)
	}
}

func (s *Sweeper) cutoffs(ids []tenant.ID, windows map[tenant.ID]time.Duration) map[tenant.ID]time.Time {
	now := s.o.Now()
	cutoffs := make(map[tenant.ID]time.Time)
	for _, id := range ids {
		window, known := windows[id]
		switch {
		case !known:
			cutoffs[id] = now
		case window >= 0:
			cutoffs[id] = now.Add(-window)
		}
	}
	return cutoffs
}
