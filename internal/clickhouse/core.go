package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

var (
	// errPoolClosed ends what still uses a pool that was closed.
	errPoolClosed = errors.New("the connection pool was closed")
	// errQueryTimeout is the tenant's own bound on a statement.
	errQueryTimeout = fmt.Errorf("query_timeout: %w", context.DeadlineExceeded)
)

const (
	dialTimeout = 10 * time.Second
	// idleTimeout is below every keep-alive timeout that ClickHouse has had by
	// default: a request on a connection that the server is just closing fails,
	// and an INSERT cannot be repeated without its caller.
	idleTimeout = 2500 * time.Millisecond
)

// coreKey is what makes two tenants share connections.
type coreKey struct {
	addr, database, username, password, tls string
}

// size is how large a pool is.
type size struct{ open, idle int }

// core is one set of connections. It never changes its size: another size is
// another core.
type core struct {
	key       coreKey
	size      size
	name      string
	transport *http.Transport
	conns     *httpConns // for short requests
	native    *native
	slots     slots
	life      context.Context // ends when the core is closed
	end       context.CancelFunc
}

// newCore makes a core; it dials nothing and starts nothing.
func newCore(e entry, s size) *core {
	o := &ch.Options{
		Addr:         []string{e.config.Addr},
		Auth:         ch.Auth{Database: e.config.Database, Username: e.config.Username, Password: e.config.Password},
		DialTimeout:  dialTimeout,
		MaxOpenConns: s.open,
		MaxIdleConns: s.idle,
	}
	if e.config.TLS.Enabled {
		o.TLS = e.tls.config
	}
	o.DialContext = dialNative(o.TLS)
	open := func() (driver.Conn, error) { return ch.Open(o) }
	life, end := context.WithCancel(context.Background())
	return &core{
		key: e.key, size: s, name: e.config.name(), native: &native{open: open},
		slots: make(slots, s.open), life: life, end: end,
		conns: newHTTPConns(s.idle),
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:     e.tls.config.Clone(),
			TLSHandshakeTimeout: dialTimeout,
			MaxIdleConns:        s.idle,
			MaxIdleConnsPerHost: s.idle,
			IdleConnTimeout:     idleTimeout,
			DisableCompression:  true,
		},
	}
}

// close ends the connections and whatever still uses them.
func (c *core) close() error {
	if c.life.Err() != nil {
		return nil
	}
	c.end()
	c.transport.CloseIdleConnections()
	c.conns.close()
	return c.native.close()
}

// bind returns a context that also ends when the core is closed or after
// timeout, if that is set. The caller calls the function when done.
func (c *core) bind(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(errPoolClosed) })
	release := func() { stop(); cancel(nil) }
	if timeout <= 0 {
		return ctx, release
	}
	ctx, expire := context.WithTimeoutCause(ctx, timeout, errQueryTimeout)
	return ctx, func() { expire(); release() }
}
