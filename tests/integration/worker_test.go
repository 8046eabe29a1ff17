package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// inserts are the INSERTs into a table that a proxy saw.
func inserts(p *clickhousetest.FaultProxy, table string) []clickhousetest.Request {
	var found []clickhousetest.Request
	for _, r := range p.Requests() {
		if statement := r.Query.Get("query"); strings.HasPrefix(statement, "INSERT") && strings.Contains(statement, table) {
			found = append(found, r)
		}
	}
	return found
}

const guardedTable = `CREATE TABLE guarded (id String, n Int64, CONSTRAINT small CHECK n < 1000) ENGINE = MergeTree ORDER BY id`

// guardedLines makes n records, of which those that bad names break the
// table's constraint.
func guardedLines(n int, bad func(int) bool) string {
	var body strings.Builder
	for i := range n {
		value := i % 1000
		if bad(i) {
			value = 5000
		}
		fmt.Fprintf(&body, "{\"id\":\"g%d\",\"n\":%d}\n", i, value)
	}
	return body.String()
}

func TestOneBadRowInALargeBatch(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, guardedTable)
	s.accept("guarded", guardedLines(500, func(i int) bool { return i == 250 }))
	s.stored("guarded", 499)
	s.eventually(func() string { return unless(s.parked() == 1, "parked") })
	assert.Equal(t, "499", s.ch.Value(t, "SELECT uniqExact(id) FROM guarded"))
	letters := s.letters("guarded")
	require.Len(t, letters, 1)
	assert.Equal(t, "guarded", letters[0].Table)
	assert.Equal(t, "469", letters[0].Code)
	assert.Contains(t, letters[0].Error, "small")
	assert.JSONEq(t, `{"id":"g250","n":5000}`, string(letters[0].Row))
}

func TestClickHouseAway(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Refuse()
	for i := range 10 {
		s.accept("pages", lines(fmt.Sprintf("w%d-", i), 100))
	}
	s.eventually(func() string {
		n := len(s.logs.lines("cannot write to ClickHouse"))
		return unless(n >= 2, fmt.Sprint(n, " failures are logged"))
	})
	assert.Less(t, len(s.logs.lines("cannot write to ClickHouse")), 12, "the waits grow")
	s.o.proxy.Pass(t)
	s.stored("pages", 1000)
	assert.Equal(t, 1000, s.distinct())
	assert.Zero(t, s.parked())
}

func TestStatusThatIsNoSuccess(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Next(
		clickhousetest.Answer(http.StatusOK, http.Header{"X-Clickhouse-Exception-Code": {"209"}}, ""),
		clickhousetest.Answer(http.StatusOK, nil, "Code: 209. DB::Exception: Timeout exceeded. (SOCKET_TIMEOUT)"),
	)
	s.accept("pages", lines("a", 10))
	s.stored("pages", 10)
	assert.Len(t, inserts(s.o.proxy, "pages"), 3)
	assert.Zero(t, s.parked())
}

// refuseLarge stands before ClickHouse and answers INSERTs over a size as a
// server without memory for them does.
func refuseLarge(t *testing.T, target string, limit int) (port int, refusals *atomic.Int64) {
	t.Helper()
	refusals = new(atomic.Int64)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if strings.HasPrefix(r.URL.Query().Get("query"), "INSERT") && len(body) > limit {
			refusals.Add(1)
			w.Header().Set("X-ClickHouse-Exception-Code", "241")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "Code: 241. DB::Exception: Memory limit (total) exceeded. (MEMORY_LIMIT_EXCEEDED)")
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	_, err = fmt.Sscanf(u.Port(), "%d", &port)
	require.NoError(t, err)
	return port, refusals
}

func TestMemoryLimitOnALargeBatch(t *testing.T) {
	t.Parallel()
	ch := clickhousetest.Start(t)
	// Rows are 100 bytes each, so that bytes count rows.
	port, refusals := refuseLarge(t, ch.HTTPAddr(), 100*100+200)
	s := start(t, options{clickhouse: ch, httpPort: port}, `CREATE TABLE fixed (v FixedString(100)) ENGINE = MergeTree ORDER BY v`)
	var body strings.Builder
	for i := range 450 {
		fmt.Fprintf(&body, "{\"v\":\"row-%d\"}\n", i)
	}
	s.accept("fixed", body.String())
	s.stored("fixed", 450)
	assert.Equal(t, "450", s.ch.Value(t, "SELECT uniqExact(v) FROM fixed"))
	assert.Zero(t, s.parked())
	assert.Positive(t, refusals.Load())
	assert.Less(t, refusals.Load(), int64(20), "a batch is not tried as it was for ever")
}

func TestTableDroppedAfterAcceptance(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable, `CREATE TABLE temp_t (id String, v UInt8) ENGINE = MergeTree ORDER BY id`)
	s.unwritten(func() {
		s.accept("temp_t", `{"id":"1","v":1}`+"\n"+`{"id":"2","v":2}`)
		s.ch.Exec(t, "DROP TABLE temp_t SYNC")
	})
	s.accept("pages", lines("beside", 5))
	s.stored("pages", 5)
	s.eventually(func() string { n := s.parked(); return unless(n == 2, fmt.Sprint(n, " parked")) })
	s.accept("pages", lines("later", 5))
	s.stored("pages", 10)
	letters := s.letters("temp_t")
	require.Len(t, letters, 2)
	assert.Equal(t, "60", letters[0].Code)
	assert.JSONEq(t, `{"id":"1","v":1}`, string(letters[0].Row))
	assert.JSONEq(t, `{"id":"2","v":2}`, string(letters[1].Row))
}

func TestAnswerLostAfterTheInsert(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, `CREATE TABLE once (event_id String, page String) ENGINE = MergeTree ORDER BY event_id
		SETTINGS non_replicated_deduplication_window = 100`)
	s.o.proxy.Next(clickhousetest.LoseResponse())
	s.accept("once", lines("l", 50))
	s.stored("once", 50)
	s.accept("once", lines("m", 1))
	s.stored("once", 51)
	sent := inserts(s.o.proxy, "once")
	require.GreaterOrEqual(t, len(sent), 2)
	token := sent[0].Query.Get("insert_deduplication_token")
	require.NotEmpty(t, token)
	assert.Equal(t, token, sent[1].Query.Get("insert_deduplication_token"))
	assert.Equal(t, sent[0].Body, sent[1].Body)
	assert.NotEqual(t, token, sent[len(sent)-1].Query.Get("insert_deduplication_token"))
}

func TestProfileWithAsynchronousInserts(t *testing.T) {
	t.Parallel()
	s := start(t, options{username: clickhousetest.AsyncUser}, guardedTable)
	s.accept("guarded", guardedLines(20, func(i int) bool { return i == 7 }))
	s.stored("guarded", 19)
	s.eventually(func() string { return unless(s.parked() == 1, "parked") })
	assert.JSONEq(t, `{"id":"g7","n":5000}`, string(s.letters("guarded")[0].Row))
}

func TestSchemaChangesBetweenAcceptanceAndInsert(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, `CREATE TABLE moving (id String, ref String DEFAULT 'none', n Int32 DEFAULT 0) ENGINE = MergeTree ORDER BY id`)
	s.unwritten(func() {
		s.accept("moving", `{"id":"1","ref":"r"}`+"\n"+`{"id":"2"}`+"\n"+`{"id":"3","ref":"r"}`+"\n"+`{"id":"4","n":4}`)
		s.ch.Exec(t, "ALTER TABLE moving DROP COLUMN ref")
	})
	s.eventually(func() string { n := s.parked(); return unless(n == 2, fmt.Sprint(n, " parked")) })
	s.stored("moving", 2)
	letters := s.letters("moving")
	require.Len(t, letters, 2)
	assert.JSONEq(t, `{"id":"1","ref":"r"}`, string(letters[0].Row))
	assert.NotEmpty(t, letters[0].Code)
	assert.Contains(t, letters[0].Error, "ref")

	// A column added meanwhile gets its default, one that changed its type
	// takes what fits it.
	s.unwritten(func() {
		s.accept("moving", `{"id":"5","n":5}`)
		s.ch.Exec(t, "ALTER TABLE moving ADD COLUMN added UInt8 DEFAULT 7", "ALTER TABLE moving MODIFY COLUMN n Int64 DEFAULT 0")
	})
	s.stored("moving", 3)
	assert.Equal(t, [][]string{{"5", "7"}}, s.ch.Rows(t, "SELECT n, added FROM moving WHERE id = '5'"))
	a := s.ingest("moving", `{"id":"6","added":9,"n":6000000000}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	s.stored("moving", 4)
	assert.Equal(t, [][]string{{"6000000000", "9"}}, s.ch.Rows(t, "SELECT n, added FROM moving WHERE id = '6'"))
	assert.Equal(t, 2, s.parked())
}

// With parking off a refused row is kept and tried again; the rows around it
// are not lost, and it arrives once the table takes it.
func TestParkingOffKeepsRefusedRows(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"dlq": `{"tables":{"guarded":{"enabled":false}}}`}}, guardedTable)
	s.accept("guarded", guardedLines(10, func(i int) bool { return i == 3 }))
	s.stored("guarded", 9)
	assert.Zero(t, s.parked())
	s.ch.Exec(t, "ALTER TABLE guarded DROP CONSTRAINT small")
	s.stored("guarded", 10)
	assert.Zero(t, s.parked())
}

// A slow INSERT is not sent a second time while it runs.
func TestSlowInsertIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Next(clickhousetest.Delay(3 * time.Second))
	s.accept("pages", lines("slow", 10))
	s.stored("pages", 10)
	assert.Len(t, inserts(s.o.proxy, "pages"), 1)
}
