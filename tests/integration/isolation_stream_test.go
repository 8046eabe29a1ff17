package integration

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
)

// listener follows a tenant's tables for as long as the test runs, through
// whatever becomes of the tenant.
type listener struct {
	mu     sync.Mutex
	heard  map[string]int // rows, by uid
	before string         // the position before the last row of pages
	last   string         // that row's uid
}

// listen starts a listener for each table; they end with the test.
func (m *member) listen() {
	m.listener.heard = map[string]int{}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	m.w.t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	for _, table := range []string{"pages", "events"} {
		all.Go(func() { m.follow(ctx, table) })
	}
}

// follow opens the table's stream again whenever it ends.
func (m *member) follow(ctx context.Context, table string) {
	position := ""
	for ctx.Err() == nil {
		stream, err := m.open(ctx, table, position)
		if err == nil {
			m.hear(ctx, table, stream, &position)
			stream.Close()
			continue
		}
		var r *streamtest.Refused
		if !errors.As(err, &r) {
			if ctx.Err() == nil {
				m.w.fail("%s: stream of %s: %v", m.id, table, err)
			}
			return
		}
		m.pure("a refused stream", string(r.Body))
		if m.calm || r.Status != http.StatusNotFound && r.Status != http.StatusServiceUnavailable {
			m.w.fail("%s: stream of %s: %v", m.id, table, err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (m *member) open(ctx context.Context, table, position string) (*streamtest.Stream, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.w.s.url+"/v1/stream?table="+table, nil)
	if err != nil {
		return nil, err
	}
	headers := m.as("viewer")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return streamtest.Open(&http.Client{Transport: m.w.s.client.Transport}, request, position)
}

// hear reads a stream to its end.
func (m *member) hear(ctx context.Context, table string, stream *streamtest.Stream, position *string) {
	for {
		before := *position
		frame, err := stream.NextEvent()
		if err != nil {
			if m.calm && ctx.Err() == nil {
				m.w.fail("%s: stream of %s: %v", m.id, table, err)
			}
			return
		}
		m.pure("the stream", frame.Data)
		*position = frame.ID
		switch {
		case frame.IsRow():
			m.heard(table, frame, before)
		case ctx.Err() != nil:
			return
		case m.calm:
			m.w.fail("%s: stream of %s: %s %s", m.id, table, frame.Event, frame.Data)
		case frame.Event == "end":
			m.w.met(frame.EndReason())
		}
	}
}

// heard notes a row.
func (m *member) heard(table string, frame streamtest.Frame, before string) {
	r, err := frame.Row()
	var columns struct{ UID, Mark string }
	if err == nil {
		err = json.Unmarshal(r.Row, &columns)
	}
	if err != nil || r.Table != table || columns.Mark != m.mark() || m.denied == strings.Contains(frame.Data, "event_id") {
		m.w.fail("%s: stream of %s: %s", m.id, table, frame.Data)
		return
	}
	m.w.publish("position", m.id, frame.ID)
	l := &m.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard[columns.UID]++
	if table == "pages" {
		l.before, l.last = before, columns.UID
	}
}

// otherPosition opens a stream at a position of another tenant's.
func (m *member) otherPosition() {
	o := m.other()
	position := m.w.stolen("position", o)
	if position == "" {
		return
	}
	for _, table := range []string{"pages", "events"} {
		if m.streamRefused(table, position) {
			m.w.met("foreign position")
		}
	}
}

// streamRefused tells whether the position was refused, which it must be in a
// tenant that is served.
func (m *member) streamRefused(table, position string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	stream, err := m.open(ctx, table, position)
	if err == nil {
		stream.Close()
		m.w.fail("%s: a position of another tenant opened its stream", m.id)
		return false
	}
	var r *streamtest.Refused
	if !errors.As(err, &r) {
		m.w.fail("%s: stream of %s: %v", m.id, table, err)
		return false
	}
	a := answer{r.Status, r.Header, string(r.Body)}
	m.pure("a refused stream", a.body)
	switch code := problemCode(a); {
	case code == "stream.position_invalid":
		m.mustBe(served, "the stream", a)
		return true
	case code == "tenant.unknown":
		m.mustBe(removed, "the stream", a)
	case code == "tenant.rejected":
		m.mustBe(rejected, "the stream", a)
	case !m.changing || a.status != http.StatusServiceUnavailable:
		m.w.fail("%s: stream of %s: %s", m.id, table, a.body)
	}
	return false
}

// ownPosition goes back to before a row that was heard: it comes again.
func (m *member) ownPosition() {
	l := &m.listener
	l.mu.Lock()
	before, last := l.before, l.last
	l.mu.Unlock()
	if before == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	stream, err := m.open(ctx, "pages", before)
	if err != nil {
		if m.calm {
			m.w.fail("%s: %v", m.id, err)
		}
		return
	}
	defer stream.Close()
	frame, err := stream.NextEvent()
	if err != nil {
		if m.calm {
			m.w.fail("%s: %v", m.id, err)
		}
		return
	}
	m.pure("a stream that goes on", frame.Data)
	if m.calm && !strings.Contains(frame.Data, quoted(last)) {
		m.w.fail("%s: %s was heard after the position, now it is %s", m.id, last, frame.Data)
	}
	m.w.met("own position")
}
