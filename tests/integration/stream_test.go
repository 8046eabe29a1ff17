package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSeveralEventsInOneMillisecond(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	l := s.listen("pages", "")
	s.accept("pages", lines("m", 5))
	ids := map[string]bool{}
	var seen []string
	for range 2 {
		row, frame := l.row()
		require.True(t, frame.HasID)
		ids[frame.ID] = true
		seen = append(seen, cell(t, row, "event_id"))
	}
	l.Close()
	again := s.listen("pages", l.LastID())
	for range 3 {
		row, frame := again.row()
		ids[frame.ID] = true
		seen = append(seen, cell(t, row, "event_id"))
	}
	assert.Equal(t, []string{"m0", "m1", "m2", "m3", "m4"}, seen)
	assert.Len(t, ids, 5)
	// What comes next is live, and behind a restart it is still in order.
	s.accept("pages", lines("n", 1))
	row, _ := again.row()
	assert.Equal(t, "n0", cell(t, row, "event_id"))
	last := again.LastID()
	s.accept("pages", lines("o", 2))
	s.restart()
	resumed := s.listen("pages", last)
	s.accept("pages", lines("p", 1))
	for _, want := range []string{"o0", "o1", "p0"} {
		row, _ := resumed.row()
		assert.Equal(t, want, cell(t, row, "event_id"))
	}
}

func TestStreamEndsWithTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	l := s.listen("pages", "")
	s.stop()
	assert.Equal(t, "shutdown", l.event().EndReason())
	_, err := l.NextEvent()
	assert.Error(t, err)
}

func TestStreamSince(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	l := s.listen("pages", "")
	s.accept("pages", lines("a", 3))
	var times []time.Time
	for range 3 {
		_, frame := l.row()
		row, err := frame.Row()
		require.NoError(t, err)
		assert.Equal(t, "pages", row.Table)
		at, err := time.Parse("2006-01-02T15:04:05.000000Z", row.ReceivedAt)
		require.NoError(t, err)
		times = append(times, at)
	}
	stream, err := s.tryListen("table=pages&since="+url.QueryEscape(times[0].Add(-time.Second).Format(time.RFC3339Nano)), "")
	require.NoError(t, err)
	assert.Len(t, (&live{stream, t}).rows(3), 3)
	stream, err = s.tryListen("table=pages&since="+url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)), "")
	require.NoError(t, err)
	future := &live{stream, t}
	s.accept("pages", lines("b", 1))
	row, _ := future.row()
	assert.Equal(t, "b0", cell(t, row, "event_id"), "nothing old")
	s.refusedStream("table=pages&since=yesterday", "", http.StatusBadRequest, "query_string.invalid")
}

func TestCursorOlderThanWhatIsKept(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"stream": `{"gap_window_minutes":0}`}}, pagesTable)
	l := s.listen("pages", "")
	old := l.LastID()
	require.NotEmpty(t, old, "a stream has a position before its first row")
	s.accept("pages", lines("gone", 3))
	l.rows(3)
	s.stored("pages", 3)
	// The sweeper's first round comes with the start.
	s.restart()
	s.eventually(func() string {
		a := s.ops(http.MethodGet, "/v1/ops/tenants", "")
		return unless(strings.Contains(a.body, `"chunks":0`), a.body)
	})
	again := s.listen("pages", old)
	gap, err := again.event().Gap()
	require.NoError(t, err)
	assert.Equal(t, "retention", gap.Reason)
	assert.NotEqual(t, gap.From, gap.To)
	s.accept("pages", lines("live", 1))
	row, _ := again.row()
	assert.Equal(t, "live0", cell(t, row, "event_id"))
	// Who was told is not told again.
	told := s.listen("pages", gap.To)
	row, _ = told.row()
	assert.Equal(t, "live0", cell(t, row, "event_id"))
}

func TestCursorThatIsNonsense(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable, strings.Replace(pagesTable, "pages", "others", 1))
	other := s.listen("others", "")
	s.accept("others", lines("other", 2))
	other.rows(2)
	s.accept("pages", lines("old", 3))
	for _, id := range []string{"garbage", strings.Repeat("A", 10<<10), other.LastID(), "AQ", "ﬀ"} {
		s.refusedStream("table=pages", id, http.StatusBadRequest, "stream.position_invalid")
	}
	// An empty one is none, and one from the future starts live: no history
	// comes by accident.
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"/v1/stream?table=pages", nil)
	require.NoError(t, err)
	request.Header.Set("Last-Event-ID", "")
	response, err := s.client.Do(request)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	response.Body.Close()

	l := s.listen("pages", "")
	s.accept("pages", lines("new", 1))
	row, frame := l.row()
	assert.Equal(t, "new0", cell(t, row, "event_id"))
	// The header wins over the parameter.
	stream, err := s.tryListen("table=pages&since=2020-01-01T00:00:00Z", frame.ID)
	require.NoError(t, err)
	both := &live{stream, t}
	s.accept("pages", lines("last", 1))
	row, _ = both.row()
	assert.Equal(t, "last0", cell(t, row, "event_id"))

	// A position of a queue that is gone is ahead of everything in this one:
	// the stream says so and goes on live.
	ahead := both.LastID()
	s.stop()
	s.dataDir = t.TempDir()
	s.run()
	s.accept("pages", lines("history", 2))
	reset := s.listen("pages", ahead)
	gap, err := reset.event().Gap()
	require.NoError(t, err)
	assert.Equal(t, "reset", gap.Reason)
	s.accept("pages", lines("onward", 1))
	row, _ = reset.row()
	assert.Equal(t, "onward0", cell(t, row, "event_id"))
}

func TestHeadersAgainstBuffering(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	stream, err := s.tryListen("table=pages", "", "Accept-Encoding", "gzip, br")
	require.NoError(t, err)
	h := stream.Response.Header
	assert.Equal(t, "text/event-stream", strings.Split(h.Get("Content-Type"), ";")[0])
	assert.Contains(t, h.Get("Cache-Control"), "no-cache")
	assert.Contains(t, h.Get("Cache-Control"), "no-transform")
	assert.Equal(t, "no", h.Get("X-Accel-Buffering"))
	assert.Empty(t, h.Get("Content-Encoding"))
	first, err := stream.Next()
	require.NoError(t, err)
	assert.Equal(t, []string{"connected"}, first.Comments)
	assert.Equal(t, "2000", first.Retry)
	s.accept("pages", lines("e", 1))
	row, frame := (&live{stream, t}).row()
	assert.Equal(t, "e0", cell(t, row, "event_id"))
	assert.Empty(t, frame.Event, "a row is the default event")
}

func TestStreamOfATableTheRoleMayNotRead(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"tables":{"pages":{"viewer":{"select":{}}},"hidden_t":{"writer":{"select":{}}}}}`},
		pagesTable, `CREATE TABLE hidden_t (id String) ENGINE = MergeTree ORDER BY id`)
	viewer := as(t, "viewer")
	hidden := s.refusedStream("table=hidden_t", "", http.StatusForbidden, "auth.forbidden", viewer...)
	missing := s.refusedStream("table=nosuch", "", http.StatusForbidden, "auth.forbidden", viewer...)
	assert.Equal(t, strings.ReplaceAll(hidden.Error, "hidden_t", "T"), strings.ReplaceAll(missing.Error, "nosuch", "T"))
	s.refusedStream("", "", http.StatusBadRequest, "table.missing", viewer...)
	s.refusedStream("table=pages&table=hidden_t", "", http.StatusBadRequest, "query_string.invalid", viewer...)
	s.refusedStream("table=pages&x=%zz", "", http.StatusBadRequest, "query_string.invalid", viewer...)
	s.refusedStream("table=nosuch", "", http.StatusNotFound, "table.unknown", "X-Operator-Key", operatorKey)
}

func TestKeepaliveOfAnIdleStream(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"stream": `{"keepalive_interval":1,"keepalive_buckets":1}`}}, pagesTable)
	l := s.listen("pages", "")
	for {
		f, err := l.Next()
		require.NoError(t, err)
		if len(f.Comments) > 0 && f.Comments[0] != "connected" {
			break
		}
	}
}

// Rows reach every reader whole, in order, before ClickHouse has them.
func TestStreamComesBeforeClickHouse(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Refuse()
	readers := make([]*live, 8)
	for i := range readers {
		readers[i] = s.listen("pages", "")
	}
	for i := range 5 {
		s.accept("pages", lines("x"+strconv.Itoa(i)+"-", 20))
	}
	for _, l := range readers {
		for i := range 100 {
			row, _ := l.row()
			require.Equal(t, fmt.Sprintf("x%d-%d", i/20, i%20), cell(t, row, "event_id"))
		}
	}
	assert.Zero(t, s.ch.Count(t, "pages"))
	s.o.proxy.Pass(t)
	s.stored("pages", 100)
}
