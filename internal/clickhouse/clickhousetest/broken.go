package clickhousetest

import (
	"io"
	"net/http"
)

// abort resets the connection of w.
func abort(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	reset(c)
}

// lost is a response that nobody receives.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header         { return l.header }
func (l *lost) Write(p []byte) (int, error) { return len(p), nil }
func (l *lost) WriteHeader(int)             {}

// cutter passes the first bytes of a body and then has the connection ended.
type cutter struct {
	http.ResponseWriter
	left int64
}

func (c *cutter) Write(p []byte) (int, error) {
	if int64(len(p)) <= c.left {
		c.left -= int64(len(p))
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	// The forwarding handler aborts the connection when it cannot write.
	return 0, io.ErrClosedPipe
}

// Unwrap lets the response be flushed.
func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
