package clickhouse

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Pool is one tenant's way to ClickHouse: connections shared with every tenant
// that names the same server, database and user, and its own HTTP port,
// headers and timeout over them. A Pool is asked for anew for each piece of
// work, for a reload may replace it.
type Pool struct {
	core    *core
	config  Config
	metrics *metrics
}

// Native lends the native connections to use, which must not keep them. They are
// dialled as they are asked for, never more than MaxOpenConns, and closed when
// they are idle.
func (p *Pool) Native(use func(driver.Conn) error) error { return p.core.native.lend(use) }

// Scan reads the values of a row.
type Scan func(dest ...any) error

// EachRow runs a statement over the native protocol and calls take for each of
// its rows. A failure of ClickHouse's is an *Error.
func (p *Pool) EachRow(ctx context.Context, sql string, take func(Scan) error) error {
	return p.Native(func(conn driver.Conn) error {
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			return p.Wrap(ctx, err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := take(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// Ping asks for a sign of life over the native protocol. The failure is an
// *Error.
func (p *Pool) Ping(ctx context.Context) error {
	ctx, done := p.core.bind(ctx, p.config.QueryTimeout)
	defer done()
	return p.Wrap(ctx, p.Native(func(conn driver.Conn) error { return conn.Ping(ctx) }))
}

// Wrap makes an *Error of a failure of the native connection; nil stays nil.
func (p *Pool) Wrap(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if code, message, found := nativeException(err); found {
		return p.exception(code, message, 0)
	}
	return p.transport(ctx, err)
}

// Name is address and database, for answers, logs and metrics.
func (p *Pool) Name() string { return p.core.name }

// Addr is host and port of the native protocol, as the tenant spells them.
func (p *Pool) Addr() string { return p.config.Addr }

// Session is Name with the user: tenants of one session see the same tables.
func (p *Pool) Session() string { return p.config.Username + "@" + p.core.name }

// Database is the database of the tenant.
func (p *Pool) Database() string { return p.config.Database }

// QueryTimeout is the tenant's bound on one statement; zero is none.
func (p *Pool) QueryTimeout() time.Duration { return p.config.QueryTimeout }

// MaxOpenConns is how many statements the pool runs at once.
func (p *Pool) MaxOpenConns() int { return p.core.size.open }

// Local says whether ClickHouse is on this machine as far as its address tells,
// so that compressing what is sent to it gains nothing.
func (p *Pool) Local() bool {
	host, _, err := net.SplitHostPort(p.config.Addr)
	if err != nil {
		host = p.config.Addr
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (p *Pool) observe(kind string, started time.Time, err error) {
	p.metrics.observe(kind, time.Since(started), err)
}
