package clickhouse

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// nativeOptions are how the driver connects for the tenants of e.
func nativeOptions(w *wish) *ch.Options {
	o := &ch.Options{
		Addr:        []string{w.config.nativeAddr()},
		Auth:        ch.Auth{Database: w.config.Database, Username: w.config.Username, Password: w.config.Password},
		DialTimeout: dialTimeout,
	}
	if w.config.TLS.Enabled {
		o.TLS = w.tls
	}
	o.DialContext = dialNative(o.TLS)
	return o
}

// eachNativeRow is EachRow over the native protocol; row is what it reads into.
// A question has a connection of its own: there are few, and the driver's kept
// ones cost a goroutine and a timer for every tenant that asks nothing.
func (p *Pool) eachNativeRow(ctx context.Context, sql string, row []string, take func(row []string) error) error {
	ctx, leave, err := p.core.enter(ctx, p.core.questions, 0)
	if err != nil {
		return err
	}
	defer leave()
	conn, err := ch.Open(p.core.native)
	if err != nil {
		return p.nativeFailure(ctx, err)
	}
	defer func() { _ = conn.Close() }()
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return p.nativeFailure(ctx, err)
	}
	taken, err := takeRows(rows, row, take)
	if taken != nil {
		return taken
	}
	if err != nil {
		return p.nativeFailure(ctx, err)
	}
	return nil
}

// takeRows reads the rows to their end and closes them. It returns the failure
// of take apart from its own.
func takeRows(rows driver.Rows, row []string, take func(row []string) error) (taken, err error) {
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
	return taken, cmp.Or(err, rows.Err(), closed)
}

// nativeFailure makes an *Error of a failure of the driver's.
func (p *Pool) nativeFailure(ctx context.Context, err error) error {
	var e *ch.Exception
	if !errors.As(err, &e) {
		return p.failure(ctx, p.config.nativeAddr(), err)
	}
	_, message, _ := parseException(e.Message)
	return p.exception(int(e.Code), message, 0)
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
