package clickhouse

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

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
