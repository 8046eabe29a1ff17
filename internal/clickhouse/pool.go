package clickhouse

import "time"

// Pool is one tenant's way to ClickHouse: connections shared with every tenant
// that names the same server, database and user, and its own headers and
// timeout over them. A Pool is asked for anew for each piece of work, for a
// reload may replace it.
type Pool struct {
	core    *core
	config  Config
	metrics *metrics
}

// Name is address and database, for answers, logs and metrics.
func (p *Pool) Name() string { return p.core.name }

// Server is host and port of the server, as the tenant spells them.
func (p *Pool) Server() string { return p.config.server() }

// Session is Name with the user: tenants of one session see the same tables.
func (p *Pool) Session() string { return p.config.Username + "@" + p.core.name }

// Database is the database of the tenant.
func (p *Pool) Database() string { return p.config.Database }

// QueryTimeout is the tenant's bound on one statement; zero is none.
func (p *Pool) QueryTimeout() time.Duration { return p.config.QueryTimeout }

// MaxOpenConns is how many statements the pool runs at once.
func (p *Pool) MaxOpenConns() int { return p.core.size.open }

func (p *Pool) observe(kind string, started time.Time, err error) {
	p.metrics.observe(kind, time.Since(started), err)
}
