package stream

import (
	"errors"
	"net/http"
	"time"
)

const (
	// farewellTimeout bounds the writes of a stream that is ending.
	farewellTimeout = 2 * time.Second
	// pieceBytes bounds what one write deadline covers, so that a large chunk
	// asks no more of a slow line than a small one.
	pieceBytes = 256 << 10
)

// output writes to one connection with a deadline per write.
type output struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	s       *subscriber
	timeout time.Duration
	// http2: a passed deadline resets the stream even when nothing is being
	// written, so it is taken back after each flush.
	http2    bool
	deadline time.Time
	dirty    bool
	sent     int64
}

func newOutput(w http.ResponseWriter, r *http.Request, s *subscriber, timeout time.Duration) *output {
	return &output{w: w, rc: http.NewResponseController(w), s: s, timeout: timeout, http2: r.ProtoMajor >= 2}
}

// start writes the headers. The server's own deadlines for a request end here.
func (o *output) start() error {
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	if err := o.rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	o.s.open(o.rc)
	o.w.WriteHeader(http.StatusOK)
	return nil
}

// write sends b, perhaps only to a buffer: see flush.
func (o *output) write(b []byte) error {
	for len(b) > 0 {
		if err := o.arm(); err != nil {
			return err
		}
		n, err := o.w.Write(b[:min(len(b), pieceBytes)])
		o.sent += int64(n)
		o.dirty = true
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// flush sends what is buffered.
func (o *output) flush() error {
	if !o.dirty {
		return nil
	}
	o.dirty = false
	if err := o.arm(); err != nil {
		return err
	}
	if err := o.rc.Flush(); err != nil {
		return err
	}
	return o.disarm()
}

// arm sets the deadline of the next write. Within a third of the timeout the
// one that is set will do.
func (o *output) arm() error {
	now := time.Now()
	if o.deadline.Sub(now) > o.timeout-o.timeout/3 {
		return nil
	}
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	if o.s.reason != "" {
		return o.set(now.Add(min(farewellTimeout, o.timeout)))
	}
	return o.set(now.Add(o.timeout))
}

func (o *output) disarm() error {
	if !o.http2 {
		return nil
	}
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.set(time.Time{})
}

func (o *output) set(at time.Time) error {
	err := o.rc.SetWriteDeadline(at)
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	o.deadline = at
	return nil
}
