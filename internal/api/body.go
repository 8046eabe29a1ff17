package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/wavehouse/wavehouse/internal/fairshare"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// maxIngestBody bounds a decoded ingest body.
	maxIngestBody = 16 << 20
	// maxDocument bounds a query document and an ops statement.
	maxDocument = 1 << 20
	// bodyTimeout bounds how long a client may take to send a body, and
	// bodyStall how long it may take to send bodyRate bytes of it.
	bodyTimeout = 60 * time.Second
	bodyStall   = 10 * time.Second
	bodyRate    = 10 << 10
	// bodyStart is what a body is read into first, whatever its length is said to
	// be, and bodyGrowth how many times of what has arrived is made room for. What is
	// said of a small body is believed once it has begun to arrive.
	bodyStart  = 4 << 10
	bodyGrowth = 4
	// smallBody is up to where a body takes its memory from what is kept for small
	// ones.
	smallBody = 64 << 10
	// bodyWait is how long a body waits for memory.
	bodyWait = 2 * time.Second
)

// Codes of bodies that did not arrive whole.
const (
	codeIncomplete = "body.incomplete"
	codeBusy       = "bodies.busy"
)

// operatorBodies is under what the bodies of ops routes are counted.
const operatorBodies tenant.ID = ""

// bodyReader reads request bodies, decoded, within a limit for each and a
// limit for all of them together, shared between tenants. What is taken follows
// what has arrived, and large bodies take nothing from small ones.
type bodyReader struct {
	small, large *fairshare.Bytes
}

func newBodyReader(total int64) *bodyReader {
	small := total / 4
	return &bodyReader{small: fairshare.New(small, small), large: fairshare.New(total-small, total-small)}
}

// read returns the decoded body and a function that gives its memory back,
// which the caller must call once it no longer uses the body.
func (b *bodyReader) read(w http.ResponseWriter, r *http.Request, id tenant.ID, limit int64) (body []byte, release func(), err error) {
	plain := r.Header.Get("Content-Encoding") == ""
	if r.ContentLength > limit && plain {
		return nil, nil, tooLarge(limit)
	}
	on := struct { // the way of one body
		arriving
		bodyMemory
	}{
		arriving{body: r.Body, control: *http.NewResponseController(w)},
		bodyMemory{of: b, ctx: r.Context(), tenant: id},
	}
	arriving, m := &on.arriving, &on.bodyMemory
	arriving.begin(time.Now())
	expected := int64(-1)
	if plain {
		expected = r.ContentLength
	}
	body, err = m.read(arriving, r.Header.Values("Content-Encoding"), limit, expected)
	if err != nil {
		// The deadline stays for what is still to come, which the server reads when
		// it is little. Who sends too slowly is not waited for.
		if p := problemOf(err); p.Code == codeIncomplete || p.Code == codeBusy {
			w.Header().Set("Connection", "close")
		}
		return nil, nil, err
	}
	// The deadline is for the body alone. That nothing of it is left the server finds
	// out by reading, unless it is told.
	arriving.end()
	if plain {
		_ = r.Body.Close()
		received(w)
	}
	held := int64(cap(body))
	return body, func() { m.give(held) }, nil
}

// read decodes a body. With an error nothing is held.
func (m *bodyMemory) read(from io.Reader, encodings []string, limit, expected int64) ([]byte, error) {
	reader, err := decode(from, encodings, m)
	if err != nil {
		return nil, err
	}
	defer reader.close()
	body, err := m.readAll(reader, limit, expected)
	if err != nil {
		m.give(int64(cap(body)))
		return nil, err
	}
	return body, nil
}

// bodyMemory takes the memory of one body.
type bodyMemory struct {
	of     *bodyReader
	ctx    context.Context
	tenant tenant.ID
}

func (m *bodyMemory) room(n int64) *fairshare.Bytes {
	if n <= smallBody {
		return m.of.small
	}
	return m.of.large
}

// take takes n bytes, and waits a little for them.
func (m *bodyMemory) take(n int64) error {
	room := m.room(n)
	if room.Take(m.tenant, n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, bodyWait)
	defer cancel()
	if room.TakeWithin(ctx, m.tenant, n) {
		return nil
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	return problem(http.StatusServiceUnavailable, codeBusy, "too many request bodies are being read: their memory is spent").
		retryable(time.Second)
}

// give gives back what one call of take took.
func (m *bodyMemory) give(n int64) {
	if n > 0 {
		m.room(n).Give(m.tenant, n)
	}
}

// readAll returns what was read, with an error too. The capacity of the body is
// what was taken of the memory. expected is how long the body is said to be, -1
// for unknown.
func (m *bodyMemory) readAll(reader *decoded, limit, expected int64) (body []byte, err error) {
	most, believed := limit+1, int64(0)
	if expected >= 0 {
		most = min(most, max(expected, 511)+1)
		believed = smallBody
	}
	for next := min(bodyStart, most); ; next = min(max(bodyGrowth*next, believed), most) {
		// The buffer before is held until it is copied.
		if err := m.take(next); err != nil {
			return body, err
		}
		grown := make([]byte, next)
		copy(grown, body)
		m.give(int64(cap(body)))
		n, readErr := io.ReadFull(reader, grown[len(body):])
		body = grown[: len(body)+n : next]
		switch {
		case errors.Is(readErr, io.EOF), errors.Is(readErr, io.ErrUnexpectedEOF) && !truncated(readErr):
			return body, nil
		case readErr != nil:
			return body, bodyProblem(readErr, reader.encoding)
		case int64(len(body)) > limit:
			return body, tooLarge(limit)
		}
	}
}

// arriving is a body on its way. It is cut off when too little of it comes.
type arriving struct {
	body    io.Reader
	control http.ResponseController
	until   time.Time // when all of it must be here
	renewed time.Time // when the deadline was set
	got     int       // since then
}

func (a *arriving) begin(now time.Time) {
	a.until = now.Add(bodyTimeout)
	a.renew(now)
}

func (a *arriving) renew(now time.Time) {
	a.got, a.renewed = 0, now
	deadline := now.Add(bodyStall)
	if deadline.After(a.until) {
		deadline = a.until
	}
	_ = a.control.SetReadDeadline(deadline)
}

// Read gives what has come. What has waited for memory meanwhile is not held
// against the client.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if a.got += n; a.got >= bodyRate {
		if now := time.Now(); now.Sub(a.renewed) > bodyStall/10 {
			a.renew(now)
		}
	}
	return n, err
}

func (a *arriving) end() { _ = a.control.SetReadDeadline(time.Time{}) }

func bodyProblem(err error, encoding string) *Problem {
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return tooLarge(tooBig.Limit)
	case encoding != "" && !isNetwork(err):
		return problem(http.StatusBadRequest, "body.malformed",
			fmt.Sprintf("the body is not valid %s: %v", encoding, plainCause(err)))
	}
	return problem(http.StatusBadRequest, codeIncomplete, "the body did not arrive whole, or too slowly").because(err)
}

func plainCause(err error) error {
	if truncated(err) {
		return errors.New("it is cut short")
	}
	return err
}

func isNetwork(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout)
}

func tooLarge(limit int64) *Problem {
	return problem(http.StatusRequestEntityTooLarge, "body.too_large",
		fmt.Sprintf("the body is over %d bytes once decoded", limit))
}

// isBlank reports whether the body holds nothing but JSON white space.
func isBlank(body []byte) bool { return len(bytes.TrimSpace(body)) == 0 }
