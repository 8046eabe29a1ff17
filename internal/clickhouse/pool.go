package clickhouse

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Pool is one tenant's way to ClickHouse: connections shared with every tenant
// that names the same server, database and user, and its own headers and
// timeout over them. A Pool is asked for anew for each piece of work, for a
// reload may replace it.
type Pool struct {
	core    *core
	config  *Config
	metrics *metrics
}

// Name is address and database, for answers, logs and metrics.
func (p *Pool) Name() string { return p.core.name }

// Server is host and port of the server, as the tenant spells them.
func (p *Pool) Server() string { return p.config.server() }

// Session is Name with the user: tenants of one session see the same tables.
func (p *Pool) Session() string { return p.config.Username + "@" + p.core.name }

// Source tells apart what may see other tables, or see them otherwise: pools of
// one source have the same server, protocol, database, user, password, TLS and
// headers. It shows none of them.
func (p *Pool) Source() string {
	h := sha256.New()
	k := p.core.key
	_, _ = fmt.Fprintf(h, "%t %q %q %q %q %q", k.native, k.addr, k.database, k.username, k.password, k.tls)
	for _, name := range slices.Sorted(maps.Keys(p.config.Headers)) {
		_, _ = fmt.Fprintf(h, " %q %q", name, p.config.Headers[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Database is the database of the tenant.
func (p *Pool) Database() string { return p.config.Database }

// QueryTimeout is the tenant's bound on one statement; zero is none.
func (p *Pool) QueryTimeout() time.Duration { return p.config.QueryTimeout }

func (p *Pool) observe(kind string, started time.Time, err error) {
	p.metrics.observe(kind, time.Since(started), err)
}
