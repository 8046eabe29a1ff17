package wavehouse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Kinds of an Event.
const (
	EventRow = "row" // a row that was ingested
	EventGap = "gap" // rows were missed: read the range with a query
	EventEnd = "end" // the server ends this connection; the stream makes another
)

// Event is one event of a stream.
type Event[R any] struct {
	Kind string
	// ID is where the stream stands after this event: pass it to FromID.
	ID         string
	Table      string
	ReceivedAt time.Time
	// AsSent names the columns of the row whose values are as they were sent, which
	// a query may print otherwise: JSON, Dynamic and their like.
	AsSent []string
	Row    R
	// Reason is why rows are missing, or the connection ends.
	Reason string
}

// StreamOption sets one thing of a Stream.
type StreamOption func(*streamOptions)

type streamOptions struct {
	id    string
	since time.Time
	idle  time.Duration
}

// FromID goes on after a place: an event's ID, or a snapshot's Position.
func FromID(id string) StreamOption { return func(o *streamOptions) { o.id = id } }

// Since replays the rows received at or after a time before the live ones.
func Since(t time.Time) StreamOption { return func(o *streamOptions) { o.since = t } }

// IdleTimeout reconnects when nothing at all came for so long. Default 90 s, three
// of the server's keepalives; 0 for never.
func IdleTimeout(d time.Duration) StreamOption { return func(o *streamOptions) { o.idle = d } }

const (
	shortestDelay      = 100 * time.Millisecond
	longestReconnect   = 30 * time.Second
	longestStreamRetry = 5 * time.Minute
	maxEvent           = 16 << 20 // bytes
	defaultReconnect   = 2 * time.Second
	defaultIdle        = 90 * time.Second
)

// place is what outlives a connection.
type place struct {
	id       string
	retry    time.Duration
	opened   bool
	failures int
}

// Stream watches a table. It reconnects by itself, at the place it had reached, so
// that each row is yielded once while the server keeps the history. It ends quietly
// when the loop is left, when ctx ends and when the server has nothing more to
// send; a failure that will not pass is the last thing it yields.
func Stream[R any](ctx context.Context, c *Client, table string, options ...StreamOption) iter.Seq2[Event[R], error] {
	o := streamOptions{idle: defaultIdle}
	for _, option := range options {
		option(&o)
	}
	return func(yield func(Event[R], error) bool) {
		at := place{id: o.id, retry: defaultReconnect}
		for ctx.Err() == nil {
			done, err := connection(ctx, c, table, o, &at, yield)
			if done || ctx.Err() != nil {
				return
			}
			var wait time.Duration
			if err != nil {
				if at.failures++; !c.reconnects(err, at) {
					yield(Event[R]{}, err)
					return
				}
				wait = min(err.RetryAfter, longestStreamRetry)
			}
			doubled := max(shortestDelay, at.retry) << min(max(0, at.failures-1), 10)
			// Half fixed, half jitter: never at once, and never all together.
			half := min(longestReconnect, doubled) / 2
			wait = max(wait, half) + rand.N(half) //nolint:gosec // jitter, not a secret
			c.logger.DebugContext(ctx, "the stream reconnects", "table", table, "from", at.id, "wait", wait, "error", err)
			if c.sleep(ctx, wait) != nil {
				return
			}
		}
	}
}

// reconnects reports whether the stream tries again: one that was accepted before
// for as long as it is read, one that never was like any other call.
func (c *Client) reconnects(err *Error, at place) bool {
	switch {
	case !at.opened && at.failures > c.retries:
		return false
	case err.Status == 0:
		return err.Code == CodeNetwork || err.Code == CodeTimeout
	}
	// 408 is how some proxies end a connection that was open for long.
	return err.Status == http.StatusRequestTimeout || err.Retryable && passing(err.Status)
}

// connection yields the events of one connection. done says that the stream is over.
func connection[R any](ctx context.Context, c *Client, table string, o streamOptions, at *place, yield func(Event[R], error) bool) (done bool, failure *Error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.timeout, func() { cancel(errTimeout) })
	defer silence.Stop()
	q := call{method: http.MethodGet, path: "/v1/stream", query: url.Values{"table": {table}}, header: http.Header{"Accept": {"text/event-stream"}}}
	if at.id != "" {
		q.header.Set("Last-Event-ID", at.id)
	} else if !o.since.IsZero() {
		q.query.Set("since", o.since.UTC().Format(time.RFC3339Nano))
	}
	response, failure := c.open(ctx, q)
	if failure != nil {
		return false, failure
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNoContent {
		return true, nil
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return false, invalidResponse("its content type is "+strconv.Quote(kind), nil)
	}
	at.opened, at.failures = true, 0
	frames := frameReader{lines: bufio.NewReader(response.Body), id: at.id, heard: func() {
		silence.Stop()
		if o.idle > 0 {
			silence.Reset(o.idle)
		}
	}}
	for {
		frames.heard()
		frame, err := frames.next()
		// The caller takes its time over the event; only silence is counted.
		silence.Stop()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case errors.Is(err, errLongEvent):
			return false, invalidResponse(err.Error(), err)
		case err != nil:
			return false, failed(ctx, err)
		}
		if frames.retry > 0 {
			at.retry = frames.retry
		}
		// Each id is the place to go on from, whether or not it came with a row.
		at.id = frame.id
		event, known, err := eventOf[R](frame)
		if err != nil {
			return false, invalidResponse("an event does not decode", err)
		}
		if known && !yield(event, nil) {
			return true, nil
		}
	}
}

func eventOf[R any](f frame) (event Event[R], known bool, err error) {
	event.ID = f.id
	switch f.event {
	case "gap", "end":
		var fields struct {
			Reason string `json:"reason"`
		}
		event.Kind = f.event
		err = json.Unmarshal(f.data, &fields)
		event.Reason = fields.Reason
	case "":
		if len(f.data) == 0 {
			return event, false, nil
		}
		var fields struct {
			Table      string    `json:"table"`
			ReceivedAt time.Time `json:"received_at"`
			AsSent     []string  `json:"as_sent"`
			Row        R         `json:"row"`
		}
		event.Kind = EventRow
		err = decode(f.data, &fields)
		event.Table, event.ReceivedAt, event.AsSent, event.Row = fields.Table, fields.ReceivedAt, fields.AsSent, fields.Row
	default:
		return event, false, nil // of a newer server
	}
	return event, true, err
}

// frame is one event as it came; with neither event nor data it is a new place.
type frame struct {
	event, id string
	data      []byte
}

var errLongEvent = errors.New("an event is longer than 16 MiB")

// frameReader reads text/event-stream. A frame that is not finished when the
// stream ends is dropped: the server will send it again.
type frameReader struct {
	lines *bufio.Reader
	id    string
	retry time.Duration
	heard func()
}

func (r *frameReader) next() (frame, error) {
	f := frame{id: r.id}
	var data [][]byte
	size, moved := 0, false
	for {
		line, err := r.line(maxEvent - size)
		if err != nil {
			return frame{}, err
		}
		r.heard()
		if len(line) == 0 {
			if len(data) == 0 && !moved {
				f.event = ""
				continue
			}
			if len(data) == 0 {
				f.event = ""
			}
			f.data = bytes.Join(data, []byte("\n"))
			r.id = f.id
			return f, nil
		}
		size += len(line)
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			data = append(data, value)
		case "event":
			if f.event = string(value); f.event == "message" {
				f.event = ""
			}
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				moved = moved || f.id != string(value)
				f.id = string(value)
			}
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line reads a line of at most limit bytes, without its end. The server ends lines
// by a line feed.
func (r *frameReader) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errLongEvent
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
