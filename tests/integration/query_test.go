package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seeded is a server whose pages table holds rows already.
func seeded(t *testing.T, o options, rows ...string) *server {
	t.Helper()
	statements := []string{pagesTable}
	if len(rows) > 0 {
		statements = append(statements, "INSERT INTO pages FORMAT JSONEachRow "+strings.Join(rows, "\n"))
	}
	return start(t, o, statements...)
}

func TestAliasIsAName(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"1","page":"/home","org":"birch"}`, `{"event_id":"2","page":"/home","org":"birch"}`, `{"event_id":"3","page":"/other","org":"birch"}`)
	for _, alias := range []string{"k WHERE 1=0 AND q", "Sum order by area", "x LIMIT 1", "tick`tock", "back\\slash", `quote"d`, "é 😀", "1"} {
		a := s.query("pages", `{"aggregations":[{"fn":"count","column":"*","alias":`+quoted(alias)+`}],"filters":[{"column":"page","op":"eq","value":"/home"}]}`)
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.JSONEq(t, `[{`+quoted(alias)+`:2}]`, a.body)
	}
}

func TestLeavingColumnsOutAndTheStar(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: `{"tables":{"pages":{"viewer":{"select":{"allow_columns":["event_id","page"]}}}}}`},
		`{"event_id":"1","page":"/home","secret":"s3"}`)
	viewer := as(t, "viewer")
	for _, document := range []string{`{}`, `{"columns":[]}`} {
		a := s.query("pages", document, viewer...)
		refused(t, a, http.StatusBadRequest, "query.invalid")
	}
	a := s.query("pages", `{"columns":["*"]}`, viewer...)
	assert.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden}, a.status)
	a = s.query("pages", `{"select_all":true}`, viewer...)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, `[{"event_id":"1","page":"/home"}]`, compact(t, []byte(a.body)))
	for _, document := range []string{
		`{"columns":["secret"]}`, `{"columns":["page"],"filters":[{"column":"secret","op":"eq","value":"s3"}]}`,
		`{"columns":["page"],"order_by":[{"column":"secret","dir":"asc"}]}`, `{"aggregations":[{"fn":"max","column":"secret","alias":"m"}]}`,
		`{"aggregations":[{"fn":"count","column":"*","alias":"n"}],"group_by":["secret"]}`,
		`{"columns":["page"],"time_range":{"column":"ts","since":"1h"}}`,
	} {
		p := refused(t, s.query("pages", document, viewer...), http.StatusForbidden, "query.column_not_allowed")
		assert.NotEmpty(t, p.Column)
	}
}

func TestTimeRange(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE times (id String, ts DateTime64(3,'UTC'), plain DateTime('UTC')) ENGINE = MergeTree ORDER BY id`,
		`INSERT INTO times VALUES ('early','2026-01-01 00:00:00.250','2026-01-01 00:00:00'),('late','2026-01-01 00:00:00.750','2026-01-01 00:00:01')`,
		`INSERT INTO times SELECT 'now', now64(3), now()`)
	ids := func(timeRange string) string {
		var found []string
		for _, row := range s.rows("times", `{"columns":["id"],"time_range":`+timeRange+`,"order_by":[{"column":"id","dir":"asc"}]}`) {
			found = append(found, cell(t, row, "id"))
		}
		return strings.Join(found, " ")
	}
	const until = `"until":"2026-01-02T00:00:00Z"`
	assert.Equal(t, "late", ids(`{"column":"ts","since":"2026-01-01T00:00:00.500Z",`+until+`}`))
	assert.Equal(t, "late", ids(`{"column":"ts","since":"2026-01-01T02:00:00.500+02:00",`+until+`}`))
	assert.Equal(t, "now", ids(`{"column":"ts","since":"24h"}`))
	assert.Equal(t, "late", ids(`{"column":"plain","since":"2026-01-01T00:00:00.500Z",`+until+`}`))
	assert.Equal(t, "early late", ids(`{"column":"plain","since":"2026-01-01T00:00:00Z",`+until+`}`))
	assert.Equal(t, "now", ids(`{"column":"plain","since":"24h"}`))
	// A filter on a time column reads what ingest reads.
	rows := s.rows("times", `{"columns":["id"],"filters":[{"column":"ts","op":"eq","value":"2026-01-01T01:00:00.75+01:00"}]}`)
	require.Len(t, rows, 1)
	assert.Equal(t, "late", cell(t, rows[0], "id"))
}

func TestBoundsThatDoNotHold(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"old","page":"/","ts":"2026-01-01 00:00:00.000"}`, `{"event_id":"new","page":"/","ts":"2026-01-03 00:00:00.000"}`)
	rows := s.rows("pages", `{"columns":["event_id"],"time_range":{"column":"ts","until":"2026-01-02T00:00:00Z"}}`)
	require.Len(t, rows, 1)
	assert.Equal(t, "old", cell(t, rows[0], "event_id"))
	for _, timeRange := range []string{
		`{"column":"ts","since":"2026-01-03T00:00:00Z","until":"2026-01-02T00:00:00Z"}`, `{"column":"ts","since":"soon"}`,
		`{"column":"ts","since":"1h; DROP"}`, `{"column":"ts","since":"+1h"}`, `{"column":"ts"}`, `{"column":"page","since":"1h"}`,
		`{"column":"nope","since":"1h"}`, `{"since":"1h"}`,
	} {
		p := refused(t, s.query("pages", `{"columns":["event_id"],"time_range":`+timeRange+`}`), http.StatusBadRequest, "query.invalid")
		assert.Contains(t, p.Error, "time_range")
		assert.False(t, p.Retryable)
	}
}

func TestResultNamedLikeAColumn(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"1","page":"/a","n":3}`, `{"event_id":"2","page":"/a","n":6}`, `{"event_id":"3","page":"/b","n":10}`)
	rows := s.rows("pages", `{"aggregations":[{"fn":"sum","column":"n","alias":"n"}],"filters":[{"column":"n","op":"gt","value":5}]}`)
	require.Len(t, rows, 1)
	assert.JSONEq(t, `{"n":16}`, string(rows[0]))
	refused(t, s.query("pages", `{"columns":["page"],"aggregations":[{"fn":"count","column":"*","alias":"page"}],"group_by":["page"]}`), http.StatusBadRequest, "query.invalid")
	a := s.query("pages", `{"columns":["page"],"aggregations":[{"fn":"count"}]}`)
	refused(t, a, http.StatusBadRequest, "clickhouse.rejected")
	assert.Contains(t, a.body, "group by every column")
	rows = s.rows("pages", `{"columns":["page"],"aggregations":[{"fn":"max","column":"n","alias":"event_id"}],"group_by":["page"],"order_by":[{"column":"event_id","dir":"desc"}]}`)
	assert.JSONEq(t, `{"page":"/b","event_id":10}`, string(rows[0]))
}

func TestLimits(t *testing.T) {
	t.Parallel()
	var twenty []string
	for i := range 20 {
		twenty = append(twenty, fmt.Sprintf(`{"event_id":"%02d","page":"/"}`, i))
	}
	s := seeded(t, options{policies: `{"tables":{"pages":{"viewer":{"select":{"max_rows":5}},"analyst":{"select":{}}}}}`}, twenty...)
	for limit, want := range map[string]int{"0": 0, "3": 3, "null": 5, "5": 5} {
		a := s.query("pages", `{"columns":["event_id"],"limit":`+limit+`}`, as(t, "viewer")...)
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.Len(t, decode[[]any](t, a), want, limit)
	}
	for _, limit := range []string{"6", "1000000000000000000", "99999999999999999999999"} {
		p := refused(t, s.query("pages", `{"columns":["event_id"],"limit":`+limit+`}`, as(t, "viewer")...), http.StatusBadRequest, "query.invalid")
		assert.Contains(t, p.Error, "role.max_rows")
	}
	for _, limit := range []string{"-1", `"10"`, "1.5", "0.5", "true", "[]", "1e1"} {
		refused(t, s.query("pages", `{"columns":["event_id"],"limit":`+limit+`}`, as(t, "viewer")...), http.StatusBadRequest, "query.invalid")
		refused(t, s.query("pages", `{"columns":["event_id"],"offset":`+limit+`}`, as(t, "viewer")...), http.StatusBadRequest, "query.invalid")
	}
	assert.Len(t, s.rows("pages", `{"columns":["event_id"]}`, as(t, "analyst")...), 20)
	rows := s.rows("pages", `{"columns":["event_id"],"limit":2,"offset":18,"order_by":[{"column":"event_id","dir":"asc"}]}`, as(t, "analyst")...)
	require.Len(t, rows, 2)
	assert.Equal(t, "18", cell(t, rows[0], "event_id"))
}

func TestNotANumberInResults(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE floats (id String, v Float64, w Int32) ENGINE = MergeTree ORDER BY id`, `INSERT INTO floats VALUES ('1', nan, 1), ('2', inf, 2)`)
	a := s.query("floats", `{"aggregations":[{"fn":"avg","column":"w","alias":"a"},{"fn":"count","column":"*","alias":"n"}],"filters":[{"column":"id","op":"eq","value":"none"}]}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.JSONEq(t, `[{"a":null,"n":0}]`, a.body)
	document, statement := `{"select_all":true,"order_by":[{"column":"id","dir":"asc"}]}`, `SELECT * FROM floats ORDER BY id`
	for _, a := range []answer{s.query("floats", document), s.opsSQL(statement)} {
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.JSONEq(t, `[{"id":"1","v":null,"w":1},{"id":"2","v":null,"w":2}]`, a.body)
	}
}

func TestCallersMistakesAreNotServerFaults(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	for _, document := range []string{
		`{"columns":["page"],"filters":[{"column":"n","op":"eq","value":"abc"}]}`, `{"aggregations":[{"fn":"sum","column":"page","alias":"x"}]}`,
		`{"aggregations":[{"fn":"frobnicate","column":"n","alias":"x"}]}`, `{"columns":["page"],"filters":[{"column":"n","op":"like_a","value":1}]}`,
		`{"columns":["nope"]}`, `{"columns":["page"],"filters":[{"column":"n","op":"eq","value":null}]}`,
		`{"columns":["page"],"aggregations":[{"fn":"sum","column":"n","alias":"x"}]}`,
	} {
		a := s.query("pages", document)
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", document, a.body)
		p := decode[problem](t, a)
		assert.False(t, p.Retryable)
		assert.Empty(t, a.header.Get("Retry-After"))
	}
	s.o.proxy.Refuse()
	a := s.query("pages", `{"columns":["page"]}`)
	p := refused(t, a, http.StatusServiceUnavailable, "clickhouse.unavailable")
	assert.True(t, p.Retryable)
	assert.Equal(t, "5", a.header.Get("Retry-After"))
	s.o.proxy.Pass(t)
	s.eventually(func() string {
		a := s.query("pages", `{"columns":["page"]}`)
		return unless(a.status == http.StatusOK, a.body)
	})
}

func TestNumbersInResultsKeepTheirDigits(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE numbers (a UInt64, b Int64, c Decimal(18,2), d Decimal(38,18), e UInt256) ENGINE = MergeTree ORDER BY a`)
	l := s.listen("numbers", "")
	const cells = `"a":18446744073709551615,"b":-9223372036854775808,"c":1.10,"d":1.000000000000000001,"e":115792089237316195423570985008687907853269984665640564039457584007913129639935`
	s.accept("numbers", "{"+cells+"}")
	want := strings.Replace("{"+cells+"}", "1.10", "1.1", 1)
	row, _ := l.row()
	assert.Equal(t, want, string(row))
	s.stored("numbers", 1)
	assert.Equal(t, "["+want+"]", compact(t, []byte(s.query("numbers", `{"select_all":true}`).body)))
	assert.Equal(t, "["+want+"]", compact(t, []byte(s.opsSQL("SELECT * FROM numbers").body)))
	sum := s.query("numbers", `{"aggregations":[{"fn":"max","column":"a","alias":"m"}]}`)
	assert.Equal(t, `[{"m":18446744073709551615}]`, compact(t, []byte(sum.body)))
}

func TestTypingErrorsInTheDocument(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"1","page":"/"}`)
	for _, document := range []string{`{"column":["page"]}`, `{"colums":["page"]}`, `{"columns":["page"],"columns":["secret"]}`, "null", "[]", "", "{", `{"columns":["page"]} x`, `{"columns":"page"}`} {
		p := refused(t, s.query("pages", document), http.StatusBadRequest, "query.invalid")
		if strings.Contains(document, "colums") {
			assert.Contains(t, p.Error, "columns", "the nearest known key")
		}
	}
	refused(t, s.query("pages", `{"columns":["page"`+strings.Repeat(`,"page"`, 200_000)+`]}`), http.StatusRequestEntityTooLarge, "body.too_large")
}

// Other renderings come from ClickHouse itself.
func TestResultFormats(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"1","page":"/a,b"}`, `{"event_id":"2","page":"/c"}`)
	document := `{"columns":["event_id","page"],"order_by":[{"column":"event_id","dir":"asc"}]}`
	a := s.query("pages", document, "Accept", "application/x-ndjson")
	assert.Equal(t, "application/x-ndjson", a.header.Get("Content-Type"))
	assert.Equal(t, `{"event_id":"1","page":"/a,b"}`+"\n"+`{"event_id":"2","page":"/c"}`+"\n", a.body)
	a = s.query("pages", document, "Accept", "text/csv")
	assert.Equal(t, "text/csv", strings.Split(a.header.Get("Content-Type"), ";")[0])
	assert.Equal(t, `"event_id","page"`+"\n"+`"1","/a,b"`+"\n"+`"2","/c"`+"\n", a.body)
	for accept, magic := range map[string]string{"application/vnd.apache.parquet": "PAR1", "application/vnd.apache.arrow.stream": "\xff\xff\xff\xff"} {
		a = s.query("pages", document, "Accept", accept)
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.Equal(t, accept, a.header.Get("Content-Type"))
		assert.True(t, strings.HasPrefix(a.body, magic))
	}
	a = s.query("pages", document)
	assert.Equal(t, "MISS", a.header.Get("X-Cache"))
	assert.Equal(t, "application/json", a.header.Get("Content-Type"))
	assert.Contains(t, a.header.Values("Vary"), "X-Tenant-Id")
}
