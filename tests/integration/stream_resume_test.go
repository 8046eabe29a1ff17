package integration

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const quietTable = "CREATE TABLE quiet (event_id String, page String) ENGINE = MergeTree ORDER BY event_id"

// livelyStreams sends keepalives often.
var livelyStreams = map[string]string{"stream": `{"keepalive_interval":"1s","keepalive_buckets":1}`}

func TestTheIdOfAQuietTableMovesWithItsTenant(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: livelyStreams}, pagesTable, quietTable)
	l := s.listen("quiet", "")
	opening := l.LastID()
	s.accept("pages", `{"event_id":"1","page":"/"}`)
	for l.LastID() == opening {
		f, err := l.Next()
		require.NoError(t, err)
		require.False(t, f.HasData)
	}
	s.restart()
	again := s.listen("quiet", l.LastID())
	s.accept("quiet", `{"event_id":"2","page":"/"}`)
	row, _ := again.row()
	assert.JSONEq(t, `{"event_id":"2","page":"/"}`, string(row), "an id holds across a restart")
}

func TestAReloadChangesTheKeepalivesOfOpenStreams(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"stream": `{"keepalive_interval":"1h"}`}}, pagesTable)
	l := s.listen("pages", "")
	s.o.config["stream"] = livelyStreams["stream"]
	s.writeSettings()
	require.Equal(t, http.StatusOK, s.reload().status)
	f, err := l.Next()
	require.NoError(t, err)
	assert.Equal(t, []string{"keepalive"}, f.Comments)
}

func TestEverySpellingOfLastEventId(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	opening := s.listen("pages", "").LastID()
	s.accept("pages", `{"event_id":"1","page":"/"}`)
	for _, name := range []string{"last_event_id", "lastEventId", "lastEventID", "Last-Event-ID", "lasteventid", "LAST_EVENT_ID", "last-eventId"} {
		l, err := s.tryListen("table=pages&"+name+"="+opening, "")
		require.NoError(t, err, name)
		f, err := l.NextEvent()
		require.NoError(t, err, name)
		assert.True(t, f.IsRow(), name)
		l.Close()
	}
	p := s.refusedStream("table=pages&lastEventId="+opening+"&last_event_id="+opening, "", http.StatusBadRequest, "query_string.invalid")
	assert.Contains(t, p.Error, "last_event_id")
	s.refusedStream("table=pages&lastEventID=nonsense", "", http.StatusBadRequest, "stream.position_invalid")
}

func TestSinceBeforeAllTime(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	s.accept("pages", `{"event_id":"1","page":"/"}`)
	for _, since := range []string{"0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z"} {
		l, err := s.tryListen("table=pages&since="+since, "")
		require.NoError(t, err, since)
		f, err := l.NextEvent()
		require.NoError(t, err, since)
		assert.True(t, f.IsRow(), since)
		l.Close()
	}
}
