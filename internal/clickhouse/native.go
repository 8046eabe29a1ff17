package clickhouse

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// native lends the native connections of a core whose tenants asked for them. They are opened when somebody
// asks, and closed once nobody has for idleTimeout: the driver keeps a goroutine
// and a timer for every open pool, which a tenant that does nothing must not
// cost.
type native struct {
	open func() (driver.Conn, error)

	mu     sync.Mutex
	conn   driver.Conn // nil while closed
	users  int
	idle   *time.Timer // runs while there are connections and no users
	closed bool        // for good
}

// newNative makes one; it dials nothing.
func newNative(e entry, s size) *native {
	o := &ch.Options{
		Addr:         []string{e.config.nativeAddr()},
		Auth:         ch.Auth{Database: e.config.Database, Username: e.config.Username, Password: e.config.Password},
		DialTimeout:  dialTimeout,
		MaxOpenConns: s.open,
		MaxIdleConns: s.idle,
	}
	if e.config.TLS.Enabled {
		o.TLS = e.tls.config
	}
	o.DialContext = dialNative(o.TLS)
	return &native{open: func() (driver.Conn, error) { return ch.Open(o) }}
}

// lend calls use with the connections.
func (n *native) lend(use func(driver.Conn) error) error {
	conn, err := n.take()
	if err != nil {
		return err
	}
	defer n.giveBack()
	return use(conn)
}

func (n *native) take() (driver.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errPoolClosed
	}
	if n.conn == nil {
		conn, err := n.open()
		if err != nil {
			return nil, err
		}
		n.conn = conn
	}
	if n.idle != nil {
		n.idle.Stop()
		n.idle = nil
	}
	n.users++
	return n.conn, nil
}

func (n *native) giveBack() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.users--; n.users == 0 && !n.closed {
		var idle *time.Timer
		idle = time.AfterFunc(idleTimeout, func() { n.expire(idle) })
		n.idle = idle
	}
}

// expire closes the connections that timer was started for, unless they are
// used again.
func (n *native) expire(timer *time.Timer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.idle == timer && n.conn != nil {
		_ = n.conn.Close()
		n.conn, n.idle = nil, nil
	}
}

// close ends the connections, and whatever still uses them, for good.
func (n *native) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.idle != nil {
		n.idle.Stop()
	}
	if n.conn == nil {
		return nil
	}
	return n.conn.Close()
}

// eachNativeRow is EachRow over the native protocol; row is what it reads into.
func (p *Pool) eachNativeRow(ctx context.Context, sql string, row []string, take func(row []string) error) error {
	ctx, done := p.core.bind(ctx, 0)
	defer done()
	var taken error
	err := p.core.native.lend(func(conn driver.Conn) error {
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			return err
		}
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		for rows.Next() && err == nil && taken == nil {
			if err = rows.Scan(into...); err == nil {
				taken = take(row)
			}
		}
		closed := rows.Close()
		return cmp.Or(err, rows.Err(), closed)
	})
	if err == nil || taken != nil {
		return taken
	}
	if code, message, found := nativeException(err); found {
		return p.exception(code, message, 0)
	}
	return p.failure(ctx, p.config.nativeAddr(), err)
}

// nativeException finds the exception in a failure of the native protocol.
func nativeException(err error) (code int, message string, found bool) {
	var e *ch.Exception
	if !errors.As(err, &e) {
		return 0, "", false
	}
	_, message, _ = parseException(e.Message)
	return int(e.Code), message, true
}

// dialNative dials for the native protocol. The driver's own way of dialling,
// and its handshake, do not end with their context: a server that accepts and
// says nothing would hold a probe for as long as dialTimeout.
func dialNative(secure *tls.Config) func(context.Context, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialTimeout}
	dial := plain.DialContext
	if secure != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: secure}).DialContext
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := dial(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &shaking{Conn: c, settled: context.AfterFunc(ctx, func() { _ = c.Close() })}, nil
	}
}

// shaking is a connection that its dialler's context closes until the handshake
// is over, which the driver shows by lifting the deadline it had set.
type shaking struct {
	net.Conn
	settled func() bool
}

// SetDeadline sets both deadlines.
func (c *shaking) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.settled()
	}
	return c.Conn.SetDeadline(t)
}
