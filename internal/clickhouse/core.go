package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
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
	// maxQuestions bounds the questions of the server's own that are asked at
	// once over a core, on top of its size.
	maxQuestions = 4
)

// connections is how many a pool for so many statements may have: as many
// again for INSERTs, and those of questions.
func connections(open int) int { return open + open + min(open, maxQuestions) }

// coreKey is what makes two tenants share connections.
type coreKey struct {
	native                                  bool
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
	conns     *httpConns      // for short requests
	native    *ch.Options     // nil unless the tenants ask for it
	slots     slots           // of statements
	writes    slots           // of INSERTs, which no statement holds up
	questions slots           // of the server's own, which no statement holds up
	lingering slots           // of statements whose answers others read
	life      context.Context // ends when the core is closed
	end       context.CancelFunc
}

// newCore makes a core; it dials nothing and starts nothing.
func newCore(w *wish, s size) *core {
	life, end := context.WithCancel(context.Background())
	c := &core{
		key: w.key, size: s, name: w.config.name(),
		slots: make(slots, s.open), writes: make(slots, s.open), questions: make(slots, min(s.open, maxQuestions)),
		lingering: make(slots, max(1, s.open-max(1, s.open/4))), life: life, end: end,
		conns: newHTTPConns(s.idle, s.open),
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:     w.tls.Clone(),
			TLSHandshakeTimeout: dialTimeout,
			MaxIdleConns:        s.idle,
			MaxIdleConnsPerHost: s.idle,
			IdleConnTimeout:     idleTimeout,
			DisableCompression:  true,
		},
	}
	if w.config.Native {
		c.native = nativeOptions(w)
	}
	return c
}

// close ends the connections and whatever still uses them.
func (c *core) close() {
	c.end()
	c.transport.CloseIdleConnections()
	c.conns.close()
}

// enter waits for one of the slots. The context it returns also ends as bind
// says. The caller calls the function when done.
func (c *core) enter(ctx context.Context, of slots, timeout time.Duration) (context.Context, func(), error) {
	ctx, done := c.bind(ctx, timeout)
	if err := of.acquire(ctx); err != nil {
		err = ended(ctx, fmt.Errorf("wait for a free connection of %d: %w", cap(of), err))
		done()
		return nil, nil, transportKind(err).error(Error{Err: err})
	}
	return ctx, func() { of.release(); done() }, nil
}

// bind returns a context that also ends when the core is closed or after
// timeout, if that is set. The caller calls the function when done.
func (c *core) bind(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.life.Err() != nil {
		cancel(errPoolClosed) // not a moment later, as below
	}
	stop := context.AfterFunc(c.life, func() { cancel(errPoolClosed) })
	release := func() { stop(); cancel(nil) }
	if timeout <= 0 {
		return ctx, release
	}
	ctx, expire := context.WithTimeoutCause(ctx, timeout, errQueryTimeout)
	return ctx, func() { expire(); release() }
}
