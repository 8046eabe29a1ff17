package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

const (
	bodyBuffer = 32 << 10
	// untaggedTail is how much of the end of an answer is looked at for an
	// exception when the server does not mark where one begins.
	untaggedTail = 8 << 10
)

// body is the answer to a statement. ClickHouse begins to answer before it has
// finished, and appends to the answer whatever goes wrong later; body gives the
// rows and then that failure, instead of an end.
type body struct {
	ctx    context.Context
	pool   *Pool
	src    io.ReadCloser
	marker []byte // what stands before an exception; nil when the server has no marks
	limit  int64  // bytes left to give; below zero is none
	status int

	buf  []byte // buf[:safe] may be given, buf[safe:] may be the start of an exception
	off  int
	safe int
	end  error  // what follows buf[:safe]
	done func() // called once, by the first Close
}

func (p *Pool) newBody(ctx context.Context, resp *http.Response, limit int64, done func()) *body {
	b := &body{ctx: ctx, pool: p, src: resp.Body, limit: -1, status: resp.StatusCode, done: done}
	if limit > 0 {
		b.limit = limit
	}
	if own, ok := resp.Body.(*httpBody); ok {
		b.buf = own.buffer()
	}
	if tag := resp.Header.Get(headerExceptionTag); tag != "" {
		b.marker = []byte("\r\n__exception__\r\n" + tag + "\r\n")
	}
	return b
}

// Read gives the next bytes of the rows.
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for b.off == b.safe {
		if b.end != nil {
			return 0, b.end
		}
		b.fill()
	}
	n := copy(p, b.buf[b.off:b.safe])
	b.off += n
	if b.limit < 0 {
		return n, nil
	}
	if b.limit -= int64(n); b.limit < 0 {
		b.safe, b.end = b.off, b.overLimit()
		return 0, b.end
	}
	return n, nil
}

// Close gives the connection back, or ends it when the answer was not read to
// its end. Like Read it is for one goroutine.
func (b *body) Close() error {
	if b.done == nil {
		return nil
	}
	// The buffer may be the connection's, which others use from now on.
	b.buf, b.off, b.safe = nil, 0, 0
	if b.end == nil {
		b.end = http.ErrBodyReadAfterClose
	}
	err := b.src.Close()
	b.done()
	b.done = nil
	return err
}

// readUpTo gives the rest of the rows in a slice of their own, which is enlarged
// only as hold allows. The answer is not whole when it did not: what follows is
// still to be read.
func (b *body) readUpTo(hold func(bytes int64) bool) (head []byte, whole bool, err error) {
	for {
		for b.off == b.safe && b.end == nil {
			b.fill()
		}
		rest := b.buf[b.off:b.safe]
		if b.limit >= 0 && int64(len(rest)) > b.limit {
			b.off, b.safe, b.end = 0, 0, b.overLimit()
		}
		ended := errors.Is(b.end, io.EOF)
		switch need := len(head) + len(rest); {
		case b.end != nil && !ended:
			return nil, false, b.end
		case ended && head == nil:
			head = bytes.Clone(rest)
		case need <= cap(head):
			head = append(head, rest...)
		default:
			grown := max(need, 2*cap(head))
			if grown > bodyBuffer && !hold(int64(grown)) {
				return head, false, nil
			}
			head = append(append(make([]byte, 0, grown), head...), rest...)
		}
		b.off = b.safe
		if b.limit >= 0 {
			b.limit -= int64(len(rest))
		}
		if ended {
			return head, true, nil
		}
	}
}

func (b *body) overLimit() error {
	return tooLarge.error(Error{Message: "the answer is larger than may be read", Status: b.status})
}

// fill reads more. It keeps what was held back and decides how much of the
// whole may be given.
func (b *body) fill() {
	held := b.buf[b.safe:]
	if cap(b.buf) == 0 {
		b.buf = make([]byte, 0, bodyBuffer)
	}
	b.buf = append(b.buf[:0], held...)
	b.off, b.safe = 0, 0
	n, err := b.src.Read(b.buf[len(b.buf):cap(b.buf)])
	b.buf = b.buf[:len(b.buf)+n]
	if b.marker != nil {
		b.judgeMarked(err)
		return
	}
	b.judgeUnmarked(err)
}

// judgeMarked looks for the mark, which no row can hold: its tag is drawn anew
// for every answer.
func (b *body) judgeMarked(err error) {
	if at := bytes.Index(b.buf, b.marker); at >= 0 {
		text := bytes.Clone(b.buf[at+len(b.marker):])
		rest, _ := io.ReadAll(io.LimitReader(b.src, maxExceptionBytes))
		b.safe, b.end = at, b.failed(append(text, rest...))
		return
	}
	b.safe = len(b.buf)
	if err != nil {
		b.end = b.finish(err)
		return
	}
	b.safe -= heldBack(b.buf, b.marker)
}

// judgeUnmarked holds back the end of the answer until there is no more of it,
// and then looks for a line that begins as an exception does.
func (b *body) judgeUnmarked(err error) {
	if err == nil {
		b.safe = max(0, len(b.buf)-untaggedTail)
		return
	}
	b.safe, b.end = len(b.buf), b.finish(err)
	all := exceptionPattern.FindAllIndex(b.buf, -1)
	if len(all) == 0 {
		return
	}
	at := all[len(all)-1][0]
	if at == 0 || b.buf[at-1] == '\n' {
		b.end = b.failed(b.buf[at:])
		b.safe = max(0, at-1)
	}
}

// failed reads an exception that was appended to the rows: its text, and in a
// marked answer its length and the tag on a line of their own.
func (b *body) failed(text []byte) error {
	if b.marker != nil {
		if at := bytes.LastIndex(text, []byte("\r\n__exception__")); at >= 0 {
			text = text[:at]
			if line := bytes.LastIndexByte(bytes.TrimRight(text, "\r\n"), '\n'); line >= 0 {
				text = text[:line]
			}
		}
	}
	code, message, _ := parseException(string(text))
	return b.pool.exception(code, message, b.status)
}

// finish is what the end of the answer means.
func (b *body) finish(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return b.pool.failure(b.ctx, b.pool.config.httpAddr(), fmt.Errorf("read the answer: %w", err))
}

// heldBack is how many bytes at the end of data may be the start of marker.
func heldBack(data, marker []byte) int {
	for n := min(len(data), len(marker)-1); n > 0; n-- {
		if bytes.HasPrefix(marker, data[len(data)-n:]) {
			return n
		}
	}
	return 0
}
