package app

import (
	"bytes"
	"fmt"
	"net"
	"strconv"

	"github.com/wavehouse/wavehouse/internal/api"
)

// unparsedListener answers in JSON what net/http answers by itself, in plain text and
// below every handler, to a request that it cannot read.
type unparsedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l unparsedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the server looks whether it is a temporary net.Error
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		return unparsedConn{&deadlineConn{TCPConn: tcp}}, nil
	}
	return c, nil
}

// unparsedConn looks at what is written as a whole: the answers in question are one
// write each.
type unparsedConn struct{ *deadlineConn }

var (
	statusLine = []byte("HTTP/1.1 ")
	// plainHeaders are all the headers of these answers, and of no others: those of
	// handlers carry a date and a request id at least.
	plainHeaders = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
)

// Write implements io.Writer.
func (c unparsedConn) Write(p []byte) (int, error) {
	status, ok := unparsedStatus(p)
	if !ok {
		return c.deadlineConn.Write(p)
	}
	if _, err := c.deadlineConn.Write(api.Unparsed(status)); err != nil {
		return 0, fmt.Errorf("answer a request that cannot be read: %w", err)
	}
	return len(p), nil
}

// unparsedStatus is the status of an answer of net/http's own.
func unparsedStatus(p []byte) (status int, ok bool) {
	rest, ok := bytes.CutPrefix(p, statusLine)
	if !ok || len(rest) == 0 || rest[0] < '4' {
		return 0, false
	}
	line, _, _ := bytes.Cut(rest, []byte("\r\n"))
	if len(line) < 3 || !bytes.HasPrefix(rest[len(line):], plainHeaders) {
		return 0, false
	}
	status, err := strconv.Atoi(string(line[:3]))
	return status, err == nil
}
