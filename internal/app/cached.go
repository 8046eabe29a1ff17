package app

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/pipes/lineage"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// results is the cache of query results and what tells it of writes.
type results struct {
	cache   cache.Cache
	reads   *cache.Reads
	lineage *lineage.Lineage
	logger  *slog.Logger
	// locations are those of the last adoption, replaced whole. Adoptions go one
	// after the other.
	locations atomic.Pointer[locations]
}

// locations says where each tenant's tables are, and who shares a server: each
// write asks.
type locations struct {
	tenants map[tenant.ID]location
	servers map[string][]tenant.ID
	// left is where tenants were that left or moved: an INSERT may still be on
	// its way there.
	left map[tenant.ID]location
}

// maxLeft bounds the former locations that are remembered.
const maxLeft = 4096

// location is where a tenant's tables are. The server is a host: one server may be
// reached by several ports, and to tell a tenant of a write that it cannot see
// costs no more than a query.
type location struct {
	server, database string
	port             int
}

func newLocations(served map[tenant.ID]*settings.Snapshot) *locations {
	p := &locations{
		tenants: make(map[tenant.ID]location, len(served)), servers: map[string][]tenant.ID{}, left: map[tenant.ID]location{},
	}
	for id, snapshot := range served {
		c := snapshot.Config.ClickHouse
		at := location{serverOf(c.Addr), c.Database, c.HTTPPort}
		p.tenants[id] = at
		p.servers[at.server] = append(p.servers[at.server], id)
	}
	return p
}

func newResults(store cache.Cache, logger *slog.Logger, metrics prometheus.Registerer) *results {
	r := &results{
		cache: store, logger: logger, lineage: lineage.New(lineage.Options{Logger: logger}),
		reads: cache.NewReads(cache.ReadsOptions{Cache: store, Logger: logger, Metrics: metrics}),
	}
	r.locations.Store(newLocations(nil))
	return r
}

// depart notes who left since before, or moved.
func (p *locations) depart(before *locations) (moved []tenant.ID) {
	if len(before.left) < maxLeft {
		maps.Copy(p.left, before.left)
	}
	for id, had := range before.tenants {
		if at, stays := p.tenants[id]; !stays || at != had {
			moved = append(moved, id)
			p.left[id] = had
		}
	}
	for id := range p.tenants {
		if _, known := before.tenants[id]; !known {
			moved = append(moved, id)
		}
	}
	return moved
}

// told drops what was cached of tables that were written, for every tenant that
// can read them, and all of it when nobody knows which were.
func (r *results) told(all []notice.Notice) {
	ctx, locations := context.Background(), r.locations.Load()
	written, anything := map[string][]string{}, map[string]bool{} // by server
	for _, n := range all {
		switch n := n.(type) {
		case notice.Written:
			if n.Inserted == 0 {
				continue
			}
			for _, of := range []map[tenant.ID]location{locations.tenants, locations.left} {
				if at, known := of[n.Tenant]; known {
					written[at.server] = append(written[at.server], lineage.Name(at.database, n.Table))
				}
			}
		case notice.Statement:
			if n.Changed {
				r.lineage.Forget()
			}
			if at, served := locations.tenants[n.Tenant]; served {
				anything[at.server] = true
			} else {
				r.drop(ctx, []tenant.ID{n.Tenant})
			}
		case notice.Lost:
			r.lineage.Forget()
			for server := range locations.servers {
				anything[server] = true
			}
		}
	}
	for server, tables := range written {
		r.drop(ctx, locations.servers[server], tables...)
	}
	for server := range anything {
		r.drop(ctx, locations.servers[server])
	}
}

// adopt drops what was cached of tenants that left, came back or moved to
// another location, and returns them: what they had cached may have been written
// to meanwhile.
func (r *results) adopt(ctx context.Context, served map[tenant.ID]*settings.Snapshot) []tenant.ID {
	before, after := r.locations.Load(), newLocations(served)
	moved := after.depart(before)
	r.locations.Store(after)
	r.drop(ctx, moved)
	return moved
}

// drop forgets what was cached of the tenants: what depends on the tables, or all
// of it when none is named.
func (r *results) drop(ctx context.Context, ids []tenant.ID, tables ...string) {
	var err error
	if len(tables) > 0 {
		err = r.cache.Invalidate(ctx, ids, tables)
	} else {
		err = r.cache.InvalidateTenants(ctx, ids)
	}
	if err != nil {
		r.logger.Warn("cannot tell the cache of a write; what it may lack is not answered from there until it knows", "tables", tables, "error", err)
	}
}

// serverOf is the host of an address, spelled as others may: names without
// regard to case, this machine by one name.
func serverOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return "localhost"
	}
	return host
}
