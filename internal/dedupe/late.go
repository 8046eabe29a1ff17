package dedupe

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"
)

const (
	// maxLate bounds the ids whose commits are repeated.
	maxLate = 50_000
	// lateEvery is how often they are.
	lateEvery = 500 * time.Millisecond
)

// Late is a Store that repeats commits which failed: their records are stored, and
// once the reservation has lapsed another could have the id. A commit that fails is
// the caller's failure still.
type Late struct {
	Store

	committing sync.Mutex // held by who repeats them
	mu         sync.Mutex
	late       []lateCommit
	ids        int
}

type lateCommit struct {
	scope     Scope
	owner     Owner
	entries   []Entry
	retention time.Duration
}

// NewLate wraps a Store; reg may be nil.
func NewLate(s Store, reg prometheus.Registerer) *Late {
	l := &Late{Store: s}
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "wavehouse_dedupe_late_commits", Help: "Ids of stored records whose commit failed and is tried again.",
	}, func() float64 { return float64(l.Pending()) })
	return l
}

// Commit implements Reserver.
func (l *Late) Commit(ctx context.Context, s Scope, o Owner, entries []Entry, retention time.Duration) (int, error) {
	lost, err := l.Store.Commit(ctx, s, o, entries, retention)
	if err != nil {
		l.add(lateCommit{s, o, entries, retention})
	}
	return lost, err
}

// Reserve implements Reserver. What is late comes first: the ids may be the same.
func (l *Late) Reserve(ctx context.Context, s Scope, o Owner, ids []string) ([]Reservation, error) {
	if l.Pending() > 0 {
		l.repeat(ctx)
	}
	return l.Store.Reserve(ctx, s, o, ids)
}

// Pending is how many ids wait for their commit to be repeated.
func (l *Late) Pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids
}

func (l *Late) add(c lateCommit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids+len(c.entries) <= maxLate {
		l.late = append(l.late, c)
		l.ids += len(c.entries)
	}
}

// repeat commits what is late, the oldest first, until one fails.
func (l *Late) repeat(ctx context.Context) {
	l.committing.Lock()
	defer l.committing.Unlock()
	for {
		l.mu.Lock()
		if len(l.late) == 0 {
			l.mu.Unlock()
			return
		}
		c := l.late[0]
		l.mu.Unlock()
		if _, err := l.Store.Commit(ctx, c.scope, c.owner, c.entries, c.retention); err != nil {
			return
		}
		l.mu.Lock()
		l.late = l.late[1:]
		l.ids -= len(c.entries)
		l.mu.Unlock()
	}
}

// Run implements Store.
func (l *Late) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.Store.Run(ctx) })
	group.Go(func() error {
		tick := time.NewTicker(lateEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if l.Pending() > 0 {
					l.repeat(ctx)
				}
			}
		}
	})
	return group.Wait()
}

// Close implements Store. What is late is tried once more.
func (l *Late) Close(ctx context.Context) error {
	l.repeat(ctx)
	return l.Store.Close(ctx)
}
