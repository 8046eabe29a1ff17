package clickhouse

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// httpConns are kept connections on which the goroutine that asks also writes
// and reads. An http.Transport has two goroutines for each connection, and
// what they pass to each other costs more than an answer of a few rows. They
// are for what is short and harmless to repeat; all else goes by the
// transport.
type httpConns struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	closed bool
	// idle holds at most open connections, the one used last at the end. Those
	// beyond max are spare.
	idle      []*httpConn
	max, open int
}

// spareTimeout is for how long connections beyond those to be kept wait for work.
// Requests that end together leave many idle for a moment, and a connection that
// is dialled anew for each of the next ones costs ClickHouse a fifth of a small
// query.
const spareTimeout = 250 * time.Millisecond

// newHTTPConns keeps as many connections as maxIdle, 0 for none, of open that
// there may be.
func newHTTPConns(maxIdle, open int) *httpConns {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	h := &httpConns{dial: dialer.DialContext, max: maxIdle}
	if maxIdle > 0 {
		h.open = max(open, maxIdle)
	}
	return h
}

// roundTrip sends a request and reads the head of its answer. It is sent once
// more, on a new connection, when a kept one turns out to be closed. Closing
// the answer's body gives the connection back.
func (h *httpConns) roundTrip(ctx context.Context, addr string, request []byte) (*http.Response, error) {
	if conn := h.take(addr); conn != nil {
		resp, err := conn.roundTrip(ctx, request)
		if err == nil || ctx.Err() != nil || conn.answered() {
			return resp, err
		}
	}
	raw, err := h.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return newHTTPConn(h, addr, raw).roundTrip(ctx, request)
}

// take returns a kept connection to the address, nil when there is none.
func (h *httpConns) take(addr string) *httpConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.idle) - 1; i >= 0; i-- {
		conn := h.idle[i]
		if conn.addr == addr && conn.expiry.Stop() {
			h.idle = append(h.idle[:i], h.idle[i+1:]...)
			return conn
		}
	}
	return nil
}

// keep puts a connection by for the next request, and closes it when it is not
// taken in time.
func (h *httpConns) keep(conn *httpConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.idle) >= h.open {
		_ = conn.raw.Close()
		return
	}
	lasts := idleTimeout
	if len(h.idle) >= h.max {
		lasts = spareTimeout
	}
	h.idle = append(h.idle, conn)
	if conn.expiry == nil {
		conn.expiry = time.AfterFunc(lasts, func() { h.expire(conn) })
		return
	}
	conn.expiry.Reset(lasts)
}

// expire closes a connection that was not used for too long.
func (h *httpConns) expire(conn *httpConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, kept := range h.idle {
		if kept == conn {
			h.idle = append(h.idle[:i], h.idle[i+1:]...)
			_ = conn.raw.Close()
			return
		}
	}
}

// close ends the idle connections; those in use end with their requests.
func (h *httpConns) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, conn := range h.idle {
		conn.expiry.Stop()
		_ = conn.raw.Close()
	}
	h.idle = nil
}
