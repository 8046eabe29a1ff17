package app

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/local"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/pipes/lineage"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// results is the cache of query results and what tells it of writes.
type results struct {
	cache   *local.Cache
	reads   *cache.Reads
	lineage *lineage.Lineage
	// served are the tenants and where their tables are.
	served func() map[tenant.ID]*settings.Snapshot
	// known are the tenants of the last adoption. Adoptions go one after the
	// other.
	known map[tenant.ID]bool
}

func (a *App) newResults(served func() map[tenant.ID]*settings.Snapshot) (*results, error) {
	logger := component(a.logger, "cache")
	store, err := local.New(local.Options{MaxBytes: a.config.Cache.Local.MaxBytes, Logger: logger, Metrics: a.metrics})
	if err != nil {
		return nil, fmt.Errorf("make the cache: %w", err)
	}
	return &results{
		cache: store, lineage: lineage.New(lineage.Options{Logger: logger}),
		reads:  cache.NewReads(cache.ReadsOptions{Cache: store, Logger: logger, Metrics: a.metrics}),
		served: served,
	}, nil
}

// flushed drops what was cached of a table that just got rows, for every tenant
// that can read it.
func (r *results) flushed(f ingest.Flushed) {
	served := r.served()
	snapshot := served[f.Tenant]
	if snapshot == nil {
		return
	}
	table := lineage.Name(snapshot.Config.ClickHouse.Database, f.Table)
	for id := range sharing(served, snapshot) {
		r.cache.Invalidate(context.Background(), id, table)
	}
}

// Wrote implements api.Writes: a statement may have written any table of its
// server.
func (r *results) Wrote(ctx context.Context, id tenant.ID, changed bool) {
	if changed {
		r.lineage.Forget()
	}
	served := r.served()
	snapshot := served[id]
	if snapshot == nil {
		r.cache.InvalidateTenant(ctx, id)
		return
	}
	for other := range sharing(served, snapshot) {
		r.cache.InvalidateTenant(ctx, other)
	}
}

// adopt drops what was cached of tenants that left, or come back: they may
// have been written to meanwhile.
func (r *results) adopt(ctx context.Context, served map[tenant.ID]*settings.Snapshot) {
	known := make(map[tenant.ID]bool, len(served))
	for id := range served {
		known[id] = true
		if !r.known[id] {
			r.cache.InvalidateTenant(ctx, id)
		}
	}
	for id := range r.known {
		if !known[id] {
			r.cache.InvalidateTenant(ctx, id)
		}
	}
	r.known = known
}

// close ends the cache once the queries that fill it have ended.
func (r *results) close(ctx context.Context) error {
	err := r.reads.Close(ctx)
	r.cache.Close()
	return err
}

// sharing are the tenants on the same ClickHouse server.
func sharing(served map[tenant.ID]*settings.Snapshot, with *settings.Snapshot) map[tenant.ID]*settings.Snapshot {
	server := serverOf(with.Config.ClickHouse.Addr)
	same := make(map[tenant.ID]*settings.Snapshot, len(served))
	for id, snapshot := range served {
		if serverOf(snapshot.Config.ClickHouse.Addr) == server {
			same[id] = snapshot
		}
	}
	return same
}

// serverOf spells an address as others may: names without regard to case, this
// machine by one name.
func serverOf(addr string) string {
	host, port, err := net.SplitHostPort(strings.ToLower(addr))
	if err != nil {
		return addr
	}
	host = strings.TrimSuffix(host, ".")
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
