package clickhouse

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"
)

const (
	// maxHeadBytes bounds the status and the headers of an answer.
	maxHeadBytes = 1 << 20
	// maxInterim bounds the answers of status 1xx before the one that counts.
	maxInterim = 5
)

// httpConn is one connection to ClickHouse's HTTP port. One request has it at a
// time.
type httpConn struct {
	owner *httpConns
	addr  string
	raw   net.Conn
	limit io.LimitedReader // of raw; below in
	in    *bufio.Reader
	// scratch is what the body of the answer is read through.
	scratch []byte
	expiry  *time.Timer
	asked   http.Request // what ReadResponse is told was asked
}

func newHTTPConn(owner *httpConns, addr string, raw net.Conn) *httpConn {
	c := &httpConn{owner: owner, addr: addr, raw: raw, asked: http.Request{Method: http.MethodPost}}
	c.limit.R = raw
	c.in = bufio.NewReader(&c.limit)
	return c
}

// answered says that something of an answer had come before the failure.
func (c *httpConn) answered() bool { return c.limit.N < maxHeadBytes }

// roundTrip sends a request and reads the head of its answer. The connection is
// closed after a failure. When ctx ends, so does what it waits for.
func (c *httpConn) roundTrip(ctx context.Context, request []byte) (*http.Response, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(time.Unix(1, 0)) })
	resp, err := c.exchange(request)
	if err != nil {
		stop()
		_ = c.raw.Close()
		return nil, err
	}
	c.limit.N = math.MaxInt64
	resp.Body = &httpBody{conn: c, src: resp.Body, last: resp.Close, stop: stop}
	return resp, nil
}

func (c *httpConn) exchange(request []byte) (*http.Response, error) {
	c.limit.N = maxHeadBytes
	if _, err := c.raw.Write(request); err != nil {
		return nil, fmt.Errorf("send the request: %w", err)
	}
	for range maxInterim {
		resp, err := http.ReadResponse(c.in, &c.asked)
		if err != nil {
			return nil, fmt.Errorf("read the answer's head: %w", err)
		}
		if resp.StatusCode >= http.StatusOK {
			return resp, nil
		}
	}
	return nil, fmt.Errorf("read the answer's head: more than %d interim answers: %w", maxInterim, io.ErrUnexpectedEOF)
}

// httpBody is the body of an answer.
type httpBody struct {
	conn  *httpConn
	src   io.Reader
	last  bool // no request may follow
	ended bool
	stop  func() bool
}

// buffer lends the connection's scratch until Close.
func (b *httpBody) buffer() []byte {
	if b.conn.scratch == nil {
		b.conn.scratch = make([]byte, 0, bodyBuffer)
	}
	return b.conn.scratch
}

// Read implements io.Reader.
func (b *httpBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if err == io.EOF { //nolint:errorlint // the end is returned as it is
		b.ended = true
	}
	return n, err
}

// Close keeps the connection when the answer was read to its end and ends it
// otherwise, which ends the statement.
func (b *httpBody) Close() error {
	undisturbed := b.stop()
	if b.ended && !b.last && undisturbed && b.conn.in.Buffered() == 0 {
		b.conn.owner.keep(b.conn)
		return nil
	}
	return b.conn.raw.Close()
}
