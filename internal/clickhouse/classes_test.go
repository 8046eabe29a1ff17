package clickhouse_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

func TestTheListedCodesHaveTheNamesTheyAreListedWith(t *testing.T) {
	s := clickhousetest.Start(t)
	source, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	named := regexp.MustCompile(`(?m)^\t(\d+):\s+\w+,\s+// ([A-Z0-9_]+)$`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(named), 40)
	for _, m := range named {
		assert.Equal(t, m[2], s.Value(t, "SELECT errorCodeToName("+m[1]+")"), "code %s", m[1])
	}
}

// exceptionCase is a statement that the real ClickHouse refuses.
type exceptionCase struct {
	name     string
	user     string
	password string
	database string
	sql      string
	settings map[string]string
	code     int
	write    clickhouse.Class
	status   int
	answer   string
	table    bool
}

func exceptionCases() []exceptionCase {
	const rejected, limit, denied, misconfigured = "clickhouse.rejected", "clickhouse.limit_exceeded", "clickhouse.access_denied", "clickhouse.misconfigured"
	reject := func(name, sql string, code int) exceptionCase {
		return exceptionCase{name: name, sql: sql, code: code, write: clickhouse.ClassRejected, status: 400, answer: rejected}
	}
	return []exceptionCase{
		{name: "syntax", sql: "SELEC 1", code: 62, write: clickhouse.ClassUnknown, status: 400, answer: rejected, table: true},
		reject("unknown table", "SELECT * FROM nosuch", 60),
		reject("unknown column", "SELECT nosuch FROM t", 47),
		reject("type mismatch", "SELECT n = 'abc' FROM t", 53),
		reject("overflowing cast", "SELECT toDecimal32('99999', 9)", 69),
		reject("constraint", "INSERT INTO strict VALUES (5000)", 469),
		{name: "another database", sql: "SELECT * FROM nosuchdb.t", code: 81, write: clickhouse.ClassUnknown, status: 400, answer: rejected, table: true},
		{name: "too many rows", sql: "SELECT count() FROM numbers(1000)", settings: map[string]string{"max_rows_to_read": "10"},
			code: 158, write: clickhouse.ClassSplittable, status: 400, answer: limit},
		{name: "memory of the query", sql: "SELECT groupArray(number) FROM numbers(5000000)", settings: map[string]string{"max_memory_usage": "10000000"},
			code: 241, write: clickhouse.ClassSplittable, status: 400, answer: limit},
		{name: "time of the query", sql: "SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1", settings: map[string]string{"max_execution_time": "1"},
			code: 159, write: clickhouse.ClassUnavailable, status: 400, answer: limit},
		{name: "too many partitions", sql: "INSERT INTO parted SELECT number FROM numbers(50)", settings: map[string]string{"max_partitions_per_insert_block": "10"},
			code: 252, write: clickhouse.ClassSplittable, status: 400, answer: rejected},
		{name: "too many parts", sql: "INSERT INTO full VALUES (3)",
			code: 252, write: clickhouse.ClassUnavailable, status: 503, answer: "clickhouse.unavailable", table: true},
		{name: "missing grant", user: clickhousetest.NarrowUser, sql: "SELECT * FROM t",
			code: 497, write: clickhouse.ClassDenied, status: 502, answer: misconfigured, table: true},
		{name: "read-only user", user: clickhousetest.ReaderUser, sql: "INSERT INTO t VALUES (1)",
			code: 164, write: clickhouse.ClassDenied, status: 403, answer: denied},
		{name: "wrong password", user: clickhousetest.SecuredUser, password: "not-the-one", sql: "SELECT 1",
			code: 516, write: clickhouse.ClassDenied, status: 502, answer: misconfigured},
		{name: "unknown user", user: "nobody-here", sql: "SELECT 1",
			code: 516, write: clickhouse.ClassDenied, status: 502, answer: misconfigured},
		{name: "our database", database: "gone_database", sql: "SELECT 1",
			code: 81, write: clickhouse.ClassDenied, status: 502, answer: misconfigured},
	}
}

func TestExceptionsAreClassedByTheirCode(t *testing.T) {
	s := clickhousetest.Start(t)
	s.Exec(t,
		"CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n",
		"CREATE TABLE strict (n UInt64, CONSTRAINT c CHECK n < 1000) ENGINE = MergeTree ORDER BY n",
		"CREATE TABLE parted (n UInt64) ENGINE = MergeTree PARTITION BY n ORDER BY n",
		"CREATE TABLE full (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS parts_to_throw_insert = 1, parts_to_delay_insert = 1",
		"SYSTEM STOP MERGES full", "INSERT INTO full VALUES (1)",
	)
	for _, c := range exceptionCases() {
		t.Run(c.name, func(t *testing.T) {
			config := configOf(s)
			if c.user != "" {
				config.Username, config.Password = c.user, c.password
			}
			if c.database != "" {
				config.Database = c.database
			}
			_, err := read(t, poolOf(t, config), clickhouse.Request{SQL: c.sql, Settings: c.settings})
			e := asError(t, err)
			assert.Equal(t, c.code, e.Code, e.Message)
			assert.Equal(t, c.write.String(), clickhouse.Classify(err).String(), e.Message)
			assert.Equal(t, c.table, clickhouse.TableOwn(err))
			verdict := clickhouse.ReadVerdict(err)
			assert.Equal(t, c.status, verdict.Status)
			assert.Equal(t, c.answer, verdict.Code)
			assert.NotContains(t, e.Message, "(version ")
			assert.NotContains(t, e.Message, "DB::Exception")
			assert.NotEmpty(t, e.Message)
		})
	}
}

// Rows are refused for good, so the list of what blames them is short, and every
// other code of the engine, or of one to come, leaves them in the queue.
func TestOnlyListedCodesBlameTheRowsOfAnInsert(t *testing.T) {
	s := clickhousetest.Start(t)
	source, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	blames := map[int]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\d+):\s+rejected,`).FindAllStringSubmatch(string(source), -1) {
		code, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		blames[code] = true
	}
	require.NotEmpty(t, blames)
	pool, proxy := behind(t, s)
	codes := s.Rows(t, "SELECT toString(number) FROM numbers(1, 1200) WHERE errorCodeToName(number) != ''")
	require.Greater(t, len(codes), 500)
	for _, row := range append(codes, []string{"4242"}, []string{"99999"}) {
		code, err := strconv.Atoi(row[0])
		require.NoError(t, err)
		proxy.Next(clickhousetest.Answer(500, http.Header{"X-Clickhouse-Exception-Code": row}, "Code: "+row[0]+". DB::Exception: x"))
		err = pool.Insert(t.Context(), tsv("1\n", nil))
		require.Error(t, err, row)
		assert.Equal(t, blames[code], clickhouse.Classify(err) == clickhouse.ClassRejected, "code %d is %s", code, clickhouse.Classify(err))
	}
	for _, code := range []int{3, 33, 49, 95, 96, 246, 500, 568, 733, 762, 776, 900, 1000, 1001, 1002} {
		assert.False(t, blames[code], code)
	}
}

func TestAReadOnlyRequestDoesNotWrite(t *testing.T) {
	s := clickhousetest.Start(t)
	s.Exec(t, "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n")
	pool := poolOf(t, configOf(s))
	_, err := read(t, pool, clickhouse.Request{SQL: "INSERT INTO t VALUES (1)", ReadOnly: true})
	require.Equal(t, 164, asError(t, err).Code)
	got, err := read(t, pool, clickhouse.Request{SQL: "SELECT count() FROM t", ReadOnly: true, Settings: map[string]string{"max_threads": "1"}})
	require.NoError(t, err)
	require.Equal(t, "0\n", got)
}

func TestAnswersWithoutACode(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := behind(t, s)
	for _, c := range []struct {
		status int
		write  clickhouse.Class
		answer string
	}{
		{301, clickhouse.ClassUnknown, "clickhouse.misconfigured"},
		{400, clickhouse.ClassUnknown, "clickhouse.misconfigured"},
		{401, clickhouse.ClassDenied, "clickhouse.misconfigured"},
		{403, clickhouse.ClassDenied, "clickhouse.misconfigured"},
		{404, clickhouse.ClassUnknown, "clickhouse.misconfigured"},
		{408, clickhouse.ClassUnavailable, "clickhouse.unavailable"},
		{413, clickhouse.ClassSplittable, "clickhouse.misconfigured"},
		{429, clickhouse.ClassUnavailable, "clickhouse.unavailable"},
		{500, clickhouse.ClassUnknown, "clickhouse.unknown"},
		{502, clickhouse.ClassUnavailable, "clickhouse.unavailable"},
		{503, clickhouse.ClassUnavailable, "clickhouse.unavailable"},
		{504, clickhouse.ClassUnavailable, "clickhouse.unavailable"},
	} {
		before := proxy.Count()
		proxy.Next(clickhousetest.Answer(c.status, http.Header{"Location": {"http://" + s.HTTPAddr() + "/"}}, "<html>no</html>"))
		_, err := read(t, pool, clickhouse.Request{SQL: "SELECT 1"})
		e := asError(t, err)
		assert.Equal(t, c.status, e.Status)
		assert.Zero(t, e.Code)
		assert.Equal(t, c.write, clickhouse.Classify(err), "status %d", c.status)
		assert.Equal(t, c.answer, clickhouse.ReadVerdict(err).Code, "status %d", c.status)
		assert.Equal(t, before+1, proxy.Count(), "status %d: nothing follows a redirect", c.status)
	}
	// A proxy that drops the header leaves the exception's own words.
	proxy.Next(clickhousetest.Answer(500, nil, "Code: 60. DB::Exception: Table x does not exist. (UNKNOWN_TABLE) (version 26.1.1.1 (official build))\n"))
	_, err := read(t, pool, clickhouse.Request{SQL: "SELECT 1"})
	require.Equal(t, 60, asError(t, err).Code)
	require.Equal(t, "Table x does not exist. (UNKNOWN_TABLE)", asError(t, err).Message)
}

func TestTransportFaultsAreUnavailable(t *testing.T) {
	s := clickhousetest.Start(t)
	s.Exec(t, "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n")
	insert := func() clickhouse.Request {
		return clickhouse.Request{SQL: "INSERT INTO t FORMAT TSV", Body: strings.NewReader("1\n")}
	}
	for name, fault := range map[string]clickhousetest.Fault{
		"reset before the body": clickhousetest.ResetBeforeBody(),
		"reset after the body":  clickhousetest.ResetAfterBody(),
	} {
		pool, proxy := behind(t, s)
		proxy.Set(fault)
		require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(pool.Insert(t.Context(), insert())), name)
		proxy.Set(clickhousetest.Pass())
		require.NoError(t, pool.Insert(t.Context(), insert()), name)
	}
	require.Equal(t, 2, s.Count(t, "t"))

	pool, proxy := behind(t, s, func(c *clickhouse.Config) { c.QueryTimeout = 200 * time.Millisecond })
	proxy.Set(clickhousetest.Hang())
	err := pool.Insert(t.Context(), insert())
	require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, err.Error(), "query_timeout")

	pool, proxy = behind(t, s)
	proxy.Refuse()
	_, err = read(t, pool, clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
	require.Equal(t, clickhouse.Verdict{Status: 503, Code: "clickhouse.unavailable", Retryable: true, RetryAfter: 5 * time.Second}, clickhouse.ReadVerdict(err))
	proxy.Pass(t)
	_, err = read(t, pool, clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
	require.NoError(t, err)
}

func TestACutAnswerIsNoAnswer(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := behind(t, s)
	proxy.Set(clickhousetest.CutResponse(100_000))
	got, err := read(t, pool, clickhouse.Request{SQL: "SELECT number FROM numbers(1000000)"})
	require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(err))
	require.LessOrEqual(t, len(got), 100_000)
}

func TestErrorsThatAreNotOurs(t *testing.T) {
	for _, c := range []struct {
		err         error
		write, read clickhouse.Class
	}{
		{fmt.Errorf("flush: %w", clickhouse.ErrNoPool), clickhouse.ClassNoPool, clickhouse.ClassNoPool},
		{io.ErrUnexpectedEOF, clickhouse.ClassUnavailable, clickhouse.ClassUnavailable},
		{context.Canceled, clickhouse.ClassUnavailable, clickhouse.ClassUnavailable},
		{fmt.Errorf("something else"), clickhouse.ClassUnknown, clickhouse.ClassUnknown},
		{&clickhouse.Error{Class: clickhouse.ClassDenied}, clickhouse.ClassDenied, clickhouse.ClassDenied},
		{&clickhouse.Error{Class: clickhouse.ClassSplittable}, clickhouse.ClassSplittable, clickhouse.ClassRejected},
	} {
		assert.Equal(t, c.write, clickhouse.Classify(c.err), "%v", c.err)
		assert.Equal(t, c.read, clickhouse.ClassifyRead(c.err), "%v", c.err)
	}
	require.Equal(t, clickhouse.Verdict{Status: 503, Code: "clickhouse.no_pool", Retryable: true, RetryAfter: 30 * time.Second},
		clickhouse.ReadVerdict(clickhouse.ErrNoPool))
	require.Equal(t, "unknown", clickhouse.Class(200).String())
}
