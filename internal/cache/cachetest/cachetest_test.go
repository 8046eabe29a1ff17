package cachetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/local"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// The cases of an outage hold what they say: a cache that keeps what it could
// not deliver passes.
func TestOutage(t *testing.T) {
	c := Capabilities{Clock: true, Bounded: true, Outage: func(c cache.Cache, out bool) { c.(*distant).set(out) }}
	Run(t, c, func(t *testing.T, o Options) cache.Cache {
		near, err := local.New(local.Options{MaxBytes: o.MaxBytes, Now: o.Now})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, near.Close(context.Background())) })
		return &distant{Cache: near}
	})
}

// distant is a cache whose store may be out of reach.
type distant struct {
	*local.Cache
	mu      sync.Mutex
	out     bool
	pending []invalidation
}

type invalidation struct {
	ids    []tenant.ID
	tables []string
	all    bool
}

func (d *distant) set(out bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out = out
}

func (d *distant) Invalidate(ctx context.Context, ids []tenant.ID, tables []string) error {
	return d.tell(ctx, invalidation{ids: ids, tables: tables})
}

func (d *distant) InvalidateTenants(ctx context.Context, ids []tenant.ID) error {
	return d.tell(ctx, invalidation{ids: ids, all: true})
}

func (d *distant) tell(ctx context.Context, i invalidation) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out {
		d.pending = append(d.pending, i)
		return errors.New("out of reach")
	}
	if i.all {
		return d.Cache.InvalidateTenants(ctx, i.ids)
	}
	return d.Cache.Invalidate(ctx, i.ids, i.tables)
}

func (d *distant) blocked(id tenant.ID, tables []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.pending {
		for _, other := range i.ids {
			if other == id && (i.all || shares(i.tables, tables)) {
				return true
			}
		}
	}
	return false
}

func shares(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}

func (d *distant) Lookup(ctx context.Context, key cache.Key) (*cache.Value, cache.Ticket) {
	v, ticket := d.Cache.Lookup(ctx, key)
	if v != nil && d.blocked(key.Tenant, v.Tables) {
		return nil, ticket
	}
	return v, ticket
}

func (d *distant) Current(ctx context.Context, ticket cache.Ticket, tables []string) bool {
	return !d.blocked(ticket.Key.Tenant, tables) && d.Cache.Current(ctx, ticket, tables)
}

func (d *distant) Fill(ctx context.Context, ticket cache.Ticket, v *cache.Value, ttl time.Duration) {
	if !d.blocked(ticket.Key.Tenant, v.Tables) {
		d.Cache.Fill(ctx, ticket, v, ttl)
	}
}

func (d *distant) Run(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		d.mu.Lock()
		waiting := d.pending
		if d.out {
			waiting = nil
		}
		d.mu.Unlock()
		for _, i := range waiting {
			_ = d.tell(ctx, i)
		}
		d.mu.Lock()
		d.pending = d.pending[len(waiting):]
		d.mu.Unlock()
	}
}
