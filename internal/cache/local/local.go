// Package local is the cache inside the process. It is bounded in bytes; what
// stays is chosen by how often and how lately it was asked for (W-TinyLFU).
package local

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// largestShare is the part of the cache that one entry may take at most.
const largestShare = 16

// keyWeight is what the store itself takes for an entry, in bytes, about.
const keyWeight = 256

// Options are what a Cache is made with.
type Options struct {
	// MaxBytes bounds the memory of the entries.
	MaxBytes int64
	Logger   *slog.Logger          // nil discards
	Metrics  prometheus.Registerer // nil counts nowhere
	Now      func() time.Time      // nil is time.Now
}

var _ cache.Cache = (*Cache)(nil)

// Cache implements cache.Cache.
type Cache struct {
	largest  int
	now      func() time.Time
	store    *otter.Cache[cache.Key, *entry]
	versions *cache.Versions
}

// entry is a value and what it is good for.
type entry struct {
	value   *cache.Value
	seen    uint64
	expires time.Time
	ttl     time.Duration
}

// New makes an empty cache. Close ends its housekeeping.
func New(o Options) (*Cache, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	store, err := otter.New(&otter.Options[cache.Key, *entry]{
		MaximumWeight: uint64(max(o.MaxBytes, 0)),
		Weigher:       func(_ cache.Key, e *entry) uint32 { return uint32(e.value.Weight() + keyWeight) },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[cache.Key, *entry]) time.Duration {
			return e.Value.ttl
		}),
		// On the caller's goroutine: the bound is then kept by whoever adds, and
		// nothing runs on behind it.
		Executor: func(f func()) { f() },
		Logger:   logger{o.Logger},
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of %d bytes: %w", o.MaxBytes, err)
	}
	c := &Cache{largest: int(o.MaxBytes / largestShare), now: o.Now, store: store, versions: cache.NewVersions()}
	auto := promauto.With(o.Metrics)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "wavehouse_cache_bytes", Help: "Memory that cached results take in this process.",
	}, func() float64 { return float64(store.WeightedSize()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "wavehouse_cache_entries", Help: "Cached results in this process.",
	}, func() float64 { return float64(store.EstimatedSize()) })
	return c, nil
}

// Run implements cache.Cache: there is nothing to do.
func (c *Cache) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close implements cache.Cache.
func (c *Cache) Close(context.Context) error {
	c.store.StopAllGoroutines()
	return nil
}

// Lookup implements cache.Cache.
func (c *Cache) Lookup(_ context.Context, key cache.Key) (*cache.Value, cache.Ticket) {
	ticket := cache.Ticket{Key: key, Seen: c.versions.Now()}
	e, ok := c.store.GetIfPresent(key)
	if !ok {
		return nil, ticket
	}
	if c.now().Before(e.expires) && c.versions.Current(key.Tenant, e.seen, e.value.Tables) {
		return e.value, ticket
	}
	c.drop(key, e)
	return nil, ticket
}

// drop removes the entry unless another took its place.
func (c *Cache) drop(key cache.Key, old *entry) {
	c.store.ComputeIfPresent(key, func(e *entry) (*entry, otter.ComputeOp) {
		if e == old {
			return nil, otter.InvalidateOp
		}
		return e, otter.CancelOp
	})
}

// Current implements cache.Cache.
func (c *Cache) Current(_ context.Context, ticket cache.Ticket, tables []string) bool {
	return c.versions.Current(ticket.Key.Tenant, ticket.Seen, tables)
}

// Fill implements cache.Cache.
func (c *Cache) Fill(ctx context.Context, ticket cache.Ticket, value *cache.Value, ttl time.Duration) {
	if ttl <= 0 || value.Weight()+keyWeight > c.largest || !c.Current(ctx, ticket, value.Tables) {
		return
	}
	filled := &entry{value: value, seen: ticket.Seen, expires: c.now().Add(ttl), ttl: ttl}
	c.store.Compute(ticket.Key, func(old *entry, found bool) (*entry, otter.ComputeOp) {
		if found && old.seen > filled.seen {
			return old, otter.CancelOp // it may know more
		}
		return filled, otter.WriteOp
	})
}

// Invalidate implements cache.Cache. It never fails.
func (c *Cache) Invalidate(_ context.Context, ids []tenant.ID, tables []string) error {
	if len(tables) > 0 {
		c.versions.Mark(ids, tables)
	}
	return nil
}

// InvalidateTenants implements cache.Cache. It never fails.
func (c *Cache) InvalidateTenants(_ context.Context, ids []tenant.ID) error {
	c.versions.Mark(ids, nil)
	return nil
}

// Weight is what the entries take, in bytes. Those that were invalidated count
// until they make room.
func (c *Cache) Weight() uint64 { return c.store.WeightedSize() }

// logger passes the store's messages on.
type logger struct{ *slog.Logger }

func (l logger) Warn(ctx context.Context, msg string, err error) {
	l.WarnContext(ctx, msg, "error", err)
}

func (l logger) Error(ctx context.Context, msg string, err error) {
	l.ErrorContext(ctx, msg, "error", err)
}
