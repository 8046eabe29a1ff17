package integration

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// costHeaders say what an answer cost and how fresh it is.
var costHeaders = []string{"Server-Timing", "X-Rows-Read", "X-Bytes-Read", "X-Query-Id", "X-Data-Through"}

// untold holds an answer to saying nothing of its cost.
func untold(t *testing.T, a answer, whose string) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, "%s: %s", whose, a.body)
	for _, name := range costHeaders {
		assert.Empty(t, a.header.Values(name), "%s: %s", whose, name)
	}
}

// toldCost holds an answer to saying what it cost, and returns the rows it read.
func toldCost(t *testing.T, a answer, whose string) (rows int) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, "%s: %s", whose, a.body)
	for _, name := range costHeaders[:4] {
		assert.NotEmpty(t, a.header.Get(name), "%s: %s", whose, name)
	}
	rows, err := strconv.Atoi(a.header.Get("X-Rows-Read"))
	require.NoError(t, err)
	return rows
}

// through reads X-Data-Through.
func through(t *testing.T, a answer) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, a.header.Get("X-Data-Through"))
	require.NoError(t, err, "%v", a.header)
	return at
}

const manyPages = `INSERT INTO pages (event_id, page, org) SELECT toString(number), '/', if(number < 10, 'birch', 'cedar') FROM numbers(1000)`

// What an answer cost counts rows that a caller may not see: who may see all of the
// tables, or is trusted with counts, is told, and nobody else.
func TestWhoIsToldWhatAnAnswerCost(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"tables":{
		"pages":{"public":{"select":{}},"viewer":{"select":{"filter":{"org":{"_eq":"birch"}}}},
			"analyst":{"select":{"filter":{"org":{"_eq":"birch"}},"show_cost":true}}},
		"birches":{"public":{"select":{}},"viewer":{"select":{}},"writer":{"select":{}}}}}`},
		pagesTable, manyPages, `CREATE VIEW birches AS SELECT * FROM pages WHERE org = 'birch'`)
	s.adopt(`{"pipes":[{"name":"all","sql":"SELECT count() AS n FROM pages WHERE page = '/'","allowed_roles":["public","viewer","analyst"]}]}`)
	of := func(role string) []string {
		return []string{"Authorization", "Bearer " + token(t, jwt.MapClaims{"role": role}), "Cache-Control", "no-cache"}
	}
	operator := []string{"X-Operator-Key", operatorKey}
	const count = `{"aggregations":[{"fn":"count","column":"*","alias":"n"}],"filters":[{"column":"page","op":"eq","value":"/"}]}`
	for _, media := range []string{"application/json", "text/csv"} {
		as, others := []string{"Accept", media}, 0
		for who, headers := range map[string][]string{"public": of("public"), "analyst": of("analyst"), "admin": of("admin"), "operator": operator} {
			others++ // so that none is given another's answer
			a := s.query("pages", strings.Replace(count, "}]}", fmt.Sprintf(`}],"limit":%d}`, others), 1), append(headers, as...)...)
			assert.Equal(t, 1000, toldCost(t, a, who))
			assert.Contains(t, a.header.Get("Server-Timing"), "clickhouse;dur=", who)
		}
		untold(t, s.query("pages", count, append(of("viewer"), as...)...), "viewer")
		untold(t, s.query("birches", count, append(of("viewer"), as...)...), "viewer, through a view of what it may not see")
		untold(t, s.query("birches", count, append(of("writer"), as...)...), "writer, through a view of a table without a grant")
		toldCost(t, s.query("birches", count, append(of("public"), as...)...), "public")
		for _, role := range []string{"public", "analyst", "admin"} {
			toldCost(t, s.do(http.MethodGet, "/v1/pipes/all", "", append(of(role), as...)...), role)
		}
		untold(t, s.do(http.MethodGet, "/v1/pipes/all", "", append(of("viewer"), as...)...), "viewer, through a pipe")
	}
	toldCost(t, s.opsSQL("SELECT count() FROM pages WHERE page = '/'"), "operator")

	a := s.query("pages", count, append(of("public"), "Origin", "https://a.example")...)
	for _, name := range []string{"Server-Timing", "X-Rows-Read", "X-Bytes-Read", "X-Data-Through", "X-Query-ID"} {
		assert.Contains(t, a.header.Get("Access-Control-Expose-Headers"), name)
	}
}

// The id of an answer is the statement's in ClickHouse.
func TestTheQueryIDIsClickHouses(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable, manyPages)
	s.adopt(pipesFile("id", `"sql":"SELECT queryID() AS id"`, "broken", `"sql":"SELECT throwIf(1) AS x"`))
	a := s.do(http.MethodGet, "/v1/pipes/id", "", "X-Operator-Key", operatorKey)
	assert.Equal(t, fmt.Sprintf(`[{"id":%q}]`, a.header.Get("X-Query-Id")), compact(t, []byte(a.body)))
	a = s.do(http.MethodGet, "/v1/pipes/broken", "", "X-Operator-Key", operatorKey)
	require.Equal(t, http.StatusBadRequest, a.status, a.body)
	assert.NotEmpty(t, a.header.Get("X-Query-Id"), "of one that failed, too")
}

// An answer from the cache read nothing, and is as fresh as when it was made.
func TestACachedAnswerSaysWhatItCost(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable, manyPages)
	require.Equal(t, http.StatusOK, s.wait("pages", "", `{"event_id":"x","page":"/"}`, "application/json").status)
	s.eventually(func() string { // what a table is made of may not be known in time for its first answers
		a := s.query("pages", `{"columns":["event_id"],"limit":3}`, "Accept", "text/csv")
		return unless(a.header.Get("X-Data-Through") != "", "how fresh it is")
	})
	const asked = `{"columns":["event_id"],"limit":3,"order_by":[{"column":"event_id"}]}`
	first, second := s.query("pages", asked), s.query("pages", asked)
	require.Equal(t, []string{"MISS", "HIT"}, []string{first.header.Get("X-Cache"), second.header.Get("X-Cache")})
	assert.Positive(t, toldCost(t, first, "first"))
	assert.Zero(t, toldCost(t, second, "second"))
	assert.Equal(t, `cache;desc=HIT`, second.header.Get("Server-Timing"))
	assert.Equal(t, first.header.Get("X-Query-Id"), second.header.Get("X-Query-Id"), "it is the statement that made it")
	assert.Equal(t, through(t, first), through(t, second))
}

// An answer says up to when rows are in it: up to now once all is inserted, and to
// what was sent before the oldest row that is not.
func TestDataThroughIsTheInsertFrontier(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"dlq": `{"enabled":false}`}}, pagesTable, `CREATE TABLE others AS pages ENGINE = MergeTree ORDER BY event_id`,
		`CREATE TABLE summed (page String, n UInt64) ENGINE = SummingMergeTree ORDER BY page`,
		`CREATE MATERIALIZED VIEW summing TO summed AS SELECT page, count() AS n FROM pages GROUP BY page`)
	ask := func(table string) answer {
		return s.query(table, `{"select_all":true,"limit":1}`, "Accept", "text/csv")
	}
	assert.Empty(t, ask("pages").header.Get("X-Data-Through"), "nothing came that could be in it")
	s.accept("pages", `{"event_id":"a","page":"/"}`)
	accepted := time.Now()
	s.stored("pages", 1)
	for _, table := range []string{"pages", "others", "summed", "summing"} {
		s.eventually(func() string {
			a := ask(table)
			return unless(a.header.Get("X-Data-Through") != "" && through(t, a).After(accepted), table)
		})
	}

	s.ch.Exec(t, `ALTER TABLE pages ADD CONSTRAINT held CHECK event_id != 'b'`)
	before := time.Now()
	s.accept("pages", `{"event_id":"b","page":"/"}`)
	after := time.Now()
	s.eventually(func() string { // until the worker knows of the row, it may be one of any table
		return unless(through(t, ask("others")).After(after), "a table of which nothing waits")
	})
	for range 3 {
		for _, table := range []string{"pages", "summed"} {
			at := through(t, ask(table))
			assert.False(t, at.After(after), "the row is not in it: %s", table)
			assert.False(t, at.Before(before.Truncate(time.Millisecond)), "everything before it is: %s", table)
		}
	}
	s.ch.Exec(t, `ALTER TABLE pages DROP CONSTRAINT held`)
	s.stored("pages", 2)
	s.eventually(func() string { return unless(through(t, ask("pages")).After(after), "fresh again") })
	s.restart()
	s.eventually(func() string {
		a := ask("pages")
		return unless(a.header.Get("X-Data-Through") != "" && through(t, a).After(after), "known after a restart")
	})
}

// Tenants' reading is counted, of what failed as well.
func TestWhatTenantsReadIsCounted(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable, manyPages)
	require.Equal(t, http.StatusOK, s.query("pages", countAll).status)
	metrics := s.do(http.MethodGet, "/metrics", "").body
	assert.Contains(t, metrics, "wavehouse_query_read_rows_total{tenant=\"0\"} 1000\n")
	assert.Contains(t, metrics, "wavehouse_query_read_bytes_total{tenant=\"0\"}")
}

const countAll = `{"aggregations":[{"fn":"count","column":"page","alias":"n"}],"filters":[{"column":"page","op":"eq","value":"/"}]}`

// A tenant that has read its budget is refused, whoever asks, until the hour has
// passed. What a large answer reads counts in full, and so does what fails.
func TestTheBudgetOfBytesRead(t *testing.T) {
	t.Parallel()
	const budget = 40 << 20
	large := limited(t, "query", fmt.Sprintf(`{"default_max_rows":100000000,"limits":{"read_bytes_per_hour":%d}}`, budget))
	small, free := limited(t, "query", `{"default_max_rows":100000000,"limits":{"read_bytes_per_hour":"1KiB"}}`), own(t)
	fill := `INSERT INTO pages (event_id, page) SELECT toString(number), repeat('x', 1000) FROM numbers(50000)`
	s := nested(t, options{}, map[string]folder{"large": large, "small": small, "free": free})
	for _, f := range []folder{large, small, free} { // the server has looked at them once
		f.ch.Exec(t, fill)
	}
	const all = `{"columns":["event_id","page"]}`
	for _, id := range []string{"large", "small"} {
		a := s.query("pages", all, from(id)...)
		require.Equal(t, http.StatusOK, a.status, "it is admitted while something is left: %.200s", a.body)
		assert.Equal(t, 50000, strings.Count(a.body, "event_id"))
		read, _ := strconv.Atoi(a.header.Get("X-Bytes-Read"))
		assert.Greater(t, read, budget, "all of a large answer")
		a = s.query("pages", countAll, from(id)...)
		overLimit(t, a, "read_bytes_per_hour", "query.limits.read_bytes_per_hour", map[string]int{"large": budget, "small": 1024}[id])
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		require.NoError(t, err)
		assert.Greater(t, seconds, 3500)
		assert.LessOrEqual(t, seconds, 3600)
		assert.Contains(t, a.header.Get("RateLimit-Policy"), ";w=3600")
	}
	require.Equal(t, http.StatusOK, s.query("pages", countAll, from("free")...).status)
	s.accept("pages", lines("a", 1), from("large")...)
	small.config = nil
	s.change("small", small)
	require.Equal(t, http.StatusOK, s.query("pages", countAll, from("small")...).status)
}
