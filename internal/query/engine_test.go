package query_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// pages makes the table of the cases and fills it with n rows, a second apart.
func (e *engine) pages(t *testing.T, n int) *schema.Table {
	t.Helper()
	e.Exec(t, "CREATE TABLE pages (event_id String, page String, org String DEFAULT '', secret String DEFAULT '',"+
		" n Int64 DEFAULT 0, ts DateTime64(3,'UTC') DEFAULT now64(3)) ENGINE = MergeTree ORDER BY event_id")
	e.Exec(t, fmt.Sprintf("INSERT INTO pages SELECT 'e' || toString(number), ['/home', '/docs'][number %% 2 + 1],"+
		" ['birch', 'cedar'][number %% 4 < 2 ? 1 : 2], 'hidden', number, toDateTime64('2026-01-01 00:00:00.000', 3, 'UTC') + number FROM numbers(%d)", n))
	return e.describe(t, "pages")
}

// rows runs a document that must succeed and returns its answer in one line a
// row.
func (e *engine) rows(t *testing.T, table *schema.Table, grant *policy.SelectGrant, body string) []string {
	t.Helper()
	s, err := build(table, grant, body)
	require.NoError(t, err, body)
	text, err := e.run(t, s)
	require.NoError(t, err, "%s\n%s", body, s.SQL)
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &raw), text)
	rows := []string{}
	for _, r := range raw {
		rows = append(rows, string(r))
	}
	return rows
}

func TestOnTheEngine(t *testing.T) {
	e := startEngine(t)
	table := e.pages(t, 20)
	everything := policy.OperatorSelect()
	all := func(body string) []string { return e.rows(t, table, everything, body) }

	assert.Equal(t, []string{`{"page":"/docs","views":7,"sum_n":91}`, `{"page":"/home","views":6,"sum_n":78}`}, all(
		`{"columns":["page"],"aggregations":[{"fn":"count","column":"*","alias":"views"},{"fn":"sum","column":"n"}],
		  "filters":[{"column":"n","op":"gte","value":7}],"group_by":["page"],"order_by":[{"column":"views","dir":"desc"}]}`))
	assert.Equal(t, []string{`{"n":18}`, `{"n":17}`}, all(`{"columns":["n"],"order_by":[{"column":"ts","dir":"desc"}],"limit":2,"offset":1}`))
	assert.Equal(t, []string{}, all(`{"columns":["n"],"limit":0}`))
	assert.Equal(t, []string{`{"n":3}`, `{"n":5}`}, all(`{"columns":["n"],"filters":[{"column":"n","op":"in","value":[3,"5",99]}],"order_by":[{"column":"n"}]}`))
	assert.Equal(t, []string{}, all(`{"columns":["n"],"filters":[{"column":"n","op":"in","value":[]}]}`))
	assert.Equal(t, []string{`{"count":20}`}, all(`{"aggregations":[{"fn":"count"}],"filters":[{"column":"n","op":"not_in","value":[]}]}`))
	assert.Equal(t, []string{`{"count":10}`}, all(`{"aggregations":[{"fn":"count"}],"filters":[{"column":"page","op":"like","value":"/d%"}]}`))
	assert.Equal(t, []string{`{"n":19,"ts":"2026-01-01T00:00:19.000Z"}`}, all(`{"columns":["n","ts"],"filters":[{"column":"ts","op":"gt","value":"2026-01-01T02:00:18.000+02:00"}]}`))
	assert.Equal(t, []string{`{"n":19}`}, all(`{"columns":["n"],"filters":[{"column":"ts","op":"gt","value":"2026-01-01T00:00:18.0000001Z"}]}`))
	assert.Equal(t, []string{
		`{"t":"2026-01-01T00:00:00Z","count":10}`, `{"t":"2026-01-01T00:00:10Z","count":10}`,
	}, all(`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"ts","every":"10s","alias":"t"},"order_by":[{"column":"t"}]}`))
	assert.Equal(t, []string{`{"ts":"2025-12-29T00:00:00Z","count":20}`}, all(`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"ts","every":"1w","alias":"ts"},"group_by":["ts"]}`))
	assert.Equal(t, []string{`{"ts":"2026-01-01T00:00:00Z","count":20}`}, all(`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"ts","every":"1d","alias":"ts"}}`))
	assert.Equal(t, []string{`{"count_distinct_page":2,"uniq_page":2,"avg_n":9.5,"min_ts":"2026-01-01T00:00:00.000Z","max_page":"/home","any_secret":"hidden",` +
		`"median_n":9.5,"quantile_n":19,"quantiles_n":[0,9.5],"stddev_pop_n":5.766281297335398,"stddev_samp_n":5.916079783099616,"var_pop_n":33.25,"var_samp_n":35}`}, all(
		`{"aggregations":[{"fn":"count_distinct","column":"page"},{"fn":"uniq","column":"page"},{"fn":"avg","column":"n"},{"fn":"min","column":"ts"},{"fn":"max","column":"page"},{"fn":"any","column":"secret"},
		{"fn":"median","column":"n"},{"fn":"quantile","column":"n","params":[1]},{"fn":"quantiles","column":"n","params":[0,0.5]},
		{"fn":"stddev_pop","column":"n"},{"fn":"stddev_samp","column":"n"},{"fn":"var_pop","column":"n"},{"fn":"var_samp","column":"n"}]}`))
}

func TestAnAliasNeverChangesWhichRowsCount(t *testing.T) {
	e := startEngine(t)
	table := e.pages(t, 20)
	for _, alias := range []string{
		"k WHERE 1=0 AND q", "Sum order by area", "x LIMIT 1", "a`b", "a\\", "`", "\\`", "new\nline", "\x00", "', '", "page", "n", "org", "wh", "wh.page",
		"pages", "pages.page", "wh_in0", "v", "{p0:String}", "?", "--", "/*", "*", "日本", "secret", "now()",
	} {
		body, err := json.Marshal(map[string]any{
			"aggregations": []any{map[string]any{"fn": "count", "column": "*", "alias": alias}},
			"filters": []any{
				map[string]any{"column": "page", "op": "eq", "value": "/home"},
				map[string]any{"column": "org", "op": "in", "value": []string{"birch"}},
			},
			"order_by": []any{map[string]any{"column": alias}},
		})
		require.NoError(t, err)
		rows := e.rows(t, table, policy.OperatorSelect(), string(body))
		require.Len(t, rows, 1, alias)
		var got map[string]int
		require.NoError(t, json.Unmarshal([]byte(rows[0]), &got))
		assert.Equal(t, map[string]int{alias: 5}, got)
	}
}

func TestTimeRangeOnEveryKindOfTime(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE times (ts DateTime64(3,'UTC'), plain DateTime, zoned DateTime('Asia/Kolkata'), nano Nullable(DateTime64(9)), d Date, d32 Date32, k Int8) ENGINE = MergeTree ORDER BY ts")
	e.Exec(t, "INSERT INTO times SELECT addMilliseconds(toDateTime64('2026-01-01 00:00:00.250', 3, 'UTC'), number * 500) AS t, t, t, t, toDate(t, 'UTC'), toDate(t, 'UTC'), number FROM numbers(2)")
	table := e.describe(t, "times")
	ks := func(rang string) []string {
		return e.rows(t, table, policy.OperatorSelect(), `{"columns":["k"],"order_by":[{"column":"k"}],"time_range":`+rang+`}`)
	}
	both, second := []string{`{"k":0}`, `{"k":1}`}, []string{`{"k":1}`}
	for _, since := range []string{"2026-01-01T00:00:00.500Z", "2026-01-01T02:00:00.500+02:00"} {
		assert.Equal(t, second, ks(`{"column":"ts","since":"`+since+`"}`))
		assert.Equal(t, second, ks(`{"column":"nano","since":"`+since+`"}`))
		assert.Empty(t, ks(`{"column":"plain","since":"`+since+`"}`), "the seconds begin before the bound")
		assert.Equal(t, both, ks(`{"column":"plain","until":"`+since+`"}`))
		assert.Equal(t, both, ks(`{"column":"zoned","until":"`+since+`"}`))
		assert.Empty(t, ks(`{"column":"d","since":"`+since+`"}`))
		assert.Equal(t, both, ks(`{"column":"d32","until":"`+since+`"}`))
	}
	for _, column := range []string{"ts", "plain", "zoned", "nano", "d", "d32"} {
		assert.Empty(t, ks(`{"column":"`+column+`","since":"24h"}`), column)
		assert.Equal(t, both, ks(`{"column":"`+column+`","since":"100w","until":"0"}`), column)
		assert.Equal(t, both, ks(`{"column":"`+column+`","since":"1950-01-01T00:00:00Z","until":"2250-01-01T00:00:00Z"}`), column)
	}
}

func TestAnAliasNamedLikeAColumn(t *testing.T) {
	e := startEngine(t)
	table := e.pages(t, 8)
	everything := policy.OperatorSelect()
	assert.Equal(t, []string{`{"n":13}`}, e.rows(t, table, everything,
		`{"aggregations":[{"fn":"sum","column":"n","alias":"n"}],"filters":[{"column":"n","op":"gt","value":5}]}`))
	assert.Equal(t, []string{`{"page":"/docs","n":16}`, `{"page":"/home","n":12}`}, e.rows(t, table, everything,
		`{"columns":["page"],"aggregations":[{"fn":"sum","column":"n","alias":"n"}],"group_by":["page"],"order_by":[{"column":"n","dir":"desc"}]}`))
	assert.Equal(t, []string{`{"page":8}`}, e.rows(t, table, everything,
		`{"aggregations":[{"fn":"count","alias":"page"}],"filters":[{"column":"page","op":"neq","value":"8"}]}`))
}

func TestNeverMoreRowsThanTheRoleMay(t *testing.T) {
	e := startEngine(t)
	table := e.pages(t, 20)
	grant := grantOf(t, policy.SelectDocument{MaxRows: 5})
	for limit, want := range map[string]int{"0": 0, "3": 3, "null": 5} {
		assert.Len(t, e.rows(t, table, grant, `{"columns":["n"],"limit":`+limit+`}`), want, limit)
	}
	assert.Len(t, e.rows(t, table, grant, `{"columns":["n"],"offset":18}`), 2)
	assert.Empty(t, e.rows(t, table, grant, `{"columns":["n"],"offset":999999999999999999999}`))
}

func TestNaNAndInfinityAreNull(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE floats (k Int8, f Float64) ENGINE = MergeTree ORDER BY k")
	e.Exec(t, "INSERT INTO floats VALUES (1, nan), (2, inf), (3, -inf), (4, 0.5)")
	table := e.describe(t, "floats")
	everything := policy.OperatorSelect()
	assert.Equal(t, []string{`{"k":1,"f":null}`, `{"k":2,"f":null}`, `{"k":3,"f":null}`, `{"k":4,"f":0.5}`},
		e.rows(t, table, everything, `{"select_all":true,"order_by":[{"column":"k"}]}`))
	assert.Equal(t, []string{`{"avg_f":null,"count":0}`},
		e.rows(t, table, everything, `{"aggregations":[{"fn":"avg","column":"f"},{"fn":"count"}],"filters":[{"column":"k","op":"gt","value":10}]}`))
	assert.Equal(t, []string{`{"k":2}`}, e.rows(t, table, everything, `{"columns":["k"],"filters":[{"column":"f","op":"eq","value":"Infinity"}]}`))
	assert.Equal(t, []string{`{"k":3}`}, e.rows(t, table, everything, `{"columns":["k"],"filters":[{"column":"f","op":"lte","value":"-Infinity"}]}`))
	assert.Empty(t, e.rows(t, table, everything, `{"columns":["k"],"filters":[{"column":"f","op":"eq","value":"NaN"}]}`))
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE digits (u64 UInt64, i64 Int64, d18 Decimal(18,2), d38 Decimal(38,18), u256 UInt256) ENGINE = MergeTree ORDER BY u64")
	e.Exec(t, "INSERT INTO digits VALUES (18446744073709551615, -9223372036854775808, 1.10, 12345678901234567890.123456789012345678, 115792089237316195423570985008687907853269984665640564039457584007913129639935)")
	table := e.describe(t, "digits")
	assert.Equal(t, []string{`{"u64":18446744073709551615,"i64":-9223372036854775808,"d18":1.1,"d38":12345678901234567890.123456789012345678,` +
		`"u256":115792089237316195423570985008687907853269984665640564039457584007913129639935}`}, e.rows(t, table, policy.OperatorSelect(), `{"select_all":true}`))
	assert.Equal(t, []string{`{"u64":"18446744073709551615","i64":"-9223372036854775808","d18":"1.1","d38":"12345678901234567890.123456789012345678",` +
		`"u256":"115792089237316195423570985008687907853269984665640564039457584007913129639935"}`},
		e.rows(t, table, policy.OperatorSelect(), `{"select_all":true,"int64":"string"}`))
}

// A filter for each value that is stored must find its row, whatever the type
// and whether the value travels alone or in a list.
func TestFiltersFindWhatIsStored(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE kinds (k Int8, i8 Int8, u64 UInt64, i256 Int256, f32 Float32, f64 Nullable(Float64), dec Decimal(38,4), s String, lc LowCardinality(Nullable(String)),"+
		" fs FixedString(4), b Bool, u UUID, ip4 IPv4, ip6 Nullable(IPv6), e Enum8('a' = 1, 'b\\'}`' = 2), e16 Nullable(Enum16('x' = -300, 'y' = 300)), d Date, d32 Date32, dt DateTime,"+
		" zoned DateTime('Europe/Berlin'), t64 DateTime64(6), `dot.ted` String, `back``tick\\\\` String, agg SimpleAggregateFunction(max, UInt64), al Int16 ALIAS i8 * 2, made Int16 MATERIALIZED i8 * 3)"+
		" ENGINE = MergeTree ORDER BY k SETTINGS allow_nullable_key = 1")
	e.Exec(t, "INSERT INTO kinds VALUES (1, -128, 18446744073709551615, -57896044618658097711785492504343953926634992332820282019728792003956564819968, 1.1, 1e300, 12345678901234567890.1234,"+
		" 'tab\\t\\\\ \\' \\0 ü', NULL, 'ab', true, '61f0c404-5cb3-11e7-907b-a6006ad3dba0', '255.255.255.255', '::1', 'b\\'}`', 'x', '2149-06-06', '1900-01-01', 4294967295, 0, '1925-01-01 00:00:00.123456', 'q', 'w', 7),"+
		" (2, 127, 0, 0, -0.5, NULL, -0.0001, '', 'x', 'abcd', false, '00000000-0000-0000-0000-000000000000', '0.0.0.0', NULL, 'a', NULL, '1970-01-01', '2299-12-31', 1, 1750000000, '2026-06-21 04:00:00.5', '', '', 0)")
	table := e.describe(t, "kinds")
	everything := policy.OperatorSelect()
	stored := e.rows(t, table, everything, `{"select_all":true,"order_by":[{"column":"k"}]}`)
	require.Len(t, stored, 2)
	for _, row := range stored {
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(row), &fields))
		want := []string{fmt.Sprintf(`{"k":%s}`, fields["k"])}
		for name, value := range fields {
			column, err := json.Marshal(name)
			require.NoError(t, err)
			filters := []string{
				fmt.Sprintf(`{"column":%s,"op":"eq","value":%s}`, column, value),
				fmt.Sprintf(`{"column":%s,"op":"in","value":[%s]}`, column, value),
			}
			if string(value) == "null" {
				filters = []string{fmt.Sprintf(`{"column":%s,"op":"is_null"}`, column)}
			}
			for _, filter := range filters {
				assert.Equal(t, want, e.rows(t, table, everything, `{"columns":["k"],"filters":[`+filter+`]}`), filter)
			}
		}
	}
	assert.Equal(t, []string{`{"k":1}`}, e.rows(t, table, everything, `{"columns":["k"],"filters":[{"column":"fs","op":"lt","value":"abc"}]}`))
	assert.Equal(t, []string{`{"k":1}`}, e.rows(t, table, everything, `{"columns":["k"],"filters":[{"column":"e","op":"gt","value":"a"}]}`))
	assert.Equal(t, []string{`{"k":2}`}, e.rows(t, table, everything, `{"columns":["k"],"filters":[{"column":"fs","op":"like","value":"abc_"}]}`))
}

func TestALongListReachesTheEngine(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE many (k UInt64, s String) ENGINE = MergeTree ORDER BY k")
	e.Exec(t, "INSERT INTO many SELECT number, toString(number) FROM numbers(200000)")
	table := e.describe(t, "many")
	var list strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&list, `,%d`, i*3)
	}
	values := "[" + list.String()[1:] + "]"
	assert.Equal(t, []string{`{"count":66667}`}, e.rows(t, table, policy.OperatorSelect(),
		`{"aggregations":[{"fn":"count"}],"filters":[{"column":"k","op":"in","value":`+values+`}]}`))
	assert.Equal(t, []string{`{"count":133333}`}, e.rows(t, table, policy.OperatorSelect(),
		`{"aggregations":[{"fn":"count"}],"filters":[{"column":"s","op":"not_in","value":`+values+`}]}`))
}

func TestCapsAndFormatsOnTheEngine(t *testing.T) {
	e := startEngine(t)
	table := e.pages(t, 20)
	s, err := build(table, grantOf(t, policy.SelectDocument{MaxRowsToRead: 5}), `{"columns":["n"]}`)
	require.NoError(t, err)
	_, err = e.run(t, s)
	assert.ErrorContains(t, err, "max_rows_to_read")
	assert.Len(t, e.rows(t, table, grantOf(t, policy.SelectDocument{MaxRowsToRead: 20, MaxExecutionTime: 1500 * time.Millisecond, MaxMemoryUsage: 1 << 30}), `{"columns":["n"]}`), 20)

	doc, err := query.Parse([]byte(`{"columns":["n","page","ts"],"order_by":[{"column":"n"}],"limit":2}`))
	require.NoError(t, err)
	for format, want := range map[query.Format]string{
		query.FormatNDJSON:  "{\"n\":0,\"page\":\"/home\",\"ts\":\"2026-01-01T00:00:00.000Z\"}\n{\"n\":1,\"page\":\"/docs\",\"ts\":\"2026-01-01T00:00:01.000Z\"}\n",
		query.FormatCSV:     "\"n\",\"page\",\"ts\"\n0,\"/home\",\"2026-01-01T00:00:00.000Z\"\n1,\"/docs\",\"2026-01-01T00:00:01.000Z\"\n",
		query.FormatParquet: "PAR1",
		query.FormatArrow:   "\xff\xff\xff\xff",
	} {
		s, err := query.Build(doc, table, policy.OperatorSelect().Bind(nil, nil), query.Options{Format: format})
		require.NoError(t, err)
		text, err := e.run(t, s)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(text, want), "%q", text)
	}
	s, err = query.Build(doc, table, policy.OperatorSelect().Bind(nil, nil), query.Options{MaxResultBytes: 10})
	require.NoError(t, err)
	_, err = e.run(t, s)
	assert.ErrorContains(t, err, "result")
}

// A time between two values of its column is compared at the column's
// precision: ClickHouse fails when it scales a time far away to a finer one,
// and that failure would tell of rows that the caller may not see.
func TestTimesFinerThanTheirColumn(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE finer (k Int8, dt DateTime, ts DateTime64(3, 'UTC'), n Nullable(DateTime64(3))) ENGINE = MergeTree ORDER BY k",
		"INSERT INTO finer VALUES (1, '2026-01-01 00:00:00', '2026-01-01 00:00:00.000', NULL), (2, '2026-01-01 00:00:01', '2026-01-01 00:00:00.001', '2299-12-31 00:00:00'),"+
			" (3, '2106-01-01 00:00:00', '2299-12-31 00:00:00.000', '1900-01-01 00:00:00')")
	table := e.describe(t, "finer")
	for column, value := range map[string]string{"dt": "2026-01-01T00:00:00.5Z", "ts": "2026-01-01T00:00:00.0000001Z", "n": "1969-12-31T23:59:59.9999Z"} {
		above, below, differ := []string{`{"k":2}`, `{"k":3}`}, []string{`{"k":1}`}, []string{`{"k":1}`, `{"k":2}`, `{"k":3}`}
		if column == "n" {
			above, below, differ = []string{`{"k":2}`}, []string{`{"k":3}`}, []string{`{"k":2}`, `{"k":3}`}
		}
		for op, want := range map[string][]string{"gt": above, "gte": above, "lt": below, "lte": below, "eq": {}, "neq": differ} {
			assert.Equal(t, want, e.rows(t, table, policy.OperatorSelect(),
				`{"columns":["k"],"order_by":[{"column":"k"}],"filters":[{"column":"`+column+`","op":"`+op+`","value":"`+value+`"}]}`), "%s %s", column, op)
		}
	}
}

// The start of a bucket is right for every time that a column can hold, not only
// for those that a DateTime can.
func TestBucketsOfAllTimes(t *testing.T) {
	e := startEngine(t)
	moments := []string{
		"1900-01-01 00:00:00", "1955-06-01 12:34:56", "1958-03-01 00:00:00", "1969-12-28 23:59:59", "1969-12-31 23:59:59", "1970-01-01 00:00:00", "1970-01-04 23:59:59", "1970-01-05 00:00:00",
		"2012-01-01 01:02:03", "2012-01-02 00:00:00", "2026-03-29 02:30:00", "2106-02-07 06:28:15", "2106-02-07 06:28:16", "2149-06-07 00:00:00", "2200-02-28 13:00:00", "2261-12-31 23:59:59",
	}
	e.Exec(t, "CREATE TABLE buckets (k UInt8, d Date, nd Nullable(Date), d32 Date32, nd32 Nullable(Date32), dt DateTime('UTC'), berlin DateTime('Europe/Berlin'), s DateTime64(0, 'UTC'), ms DateTime64(3, 'Asia/Kolkata'),"+
		" ns DateTime64(9, 'UTC'), nns Nullable(DateTime64(9))) ENGINE = MergeTree ORDER BY k")
	for i, m := range moments {
		v := fmt.Sprintf("toDateTime64('%s', 9, 'UTC')", m)
		d := fmt.Sprintf("toDate32('%s')", m[:10])
		e.Exec(t, fmt.Sprintf("INSERT INTO buckets SELECT %d, if(%[3]s BETWEEN '1970-01-01' AND '2149-06-06', toDate(%[3]s), toDate('1970-01-01')), if(%[3]s BETWEEN '1970-01-01' AND '2149-06-06', toDate(%[3]s), NULL), %[3]s, %[3]s,"+
			" if(%[2]s BETWEEN '1970-01-01' AND '2106-02-07', toDateTime(%[2]s), toDateTime(0)), if(%[2]s BETWEEN '1970-01-01' AND '2106-02-07', toDateTime(%[2]s), toDateTime(0)),"+
			" %[2]s, addMilliseconds(%[2]s, 250), addNanoseconds(%[2]s, 1), addNanoseconds(%[2]s, 999999999)", i, v, d))
	}
	table := e.describe(t, "buckets")
	stored := map[string]time.Time{}
	for _, row := range e.Rows(t, "SELECT k, toString(d), toString(nd), toString(d32), toString(nd32), toString(dt), toString(toTimeZone(berlin, 'UTC')), toString(s), toString(toTimeZone(ms, 'UTC')), toString(ns), toString(toTimeZone(nns, 'UTC')) FROM buckets") {
		for i, column := range []string{"d", "nd", "d32", "nd32", "dt", "berlin", "s", "ms", "ns", "nns"} {
			text := row[i+1]
			if text[0] < '0' || text[0] > '9' { // NULL
				continue
			}
			at, err := time.Parse("2006-01-02 15:04:05.999999999", text)
			if len(text) == len(time.DateOnly) {
				at, err = time.Parse(time.DateOnly, text)
			}
			require.NoError(t, err)
			stored[column+row[0]] = at
		}
	}
	monday := time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, column := range []string{"d", "nd", "d32", "nd32", "dt", "berlin", "s", "ms", "ns", "nns"} {
		everies := map[string]time.Duration{"1d": day, "1w": 7 * day, "7d": 7 * day, "14d": 14 * day, "2w": 14 * day, "3d": 3 * day, "26w": 26 * 7 * day}
		if !strings.Contains(column, "d") || column == "dt" {
			everies["1s"], everies["7s"], everies["5m"], everies["1h"] = time.Second, 7*time.Second, 5*time.Minute, time.Hour
		}
		for every, length := range everies {
			rows := e.rows(t, table, policy.OperatorSelect(), `{"columns":["k"],"time_bucket":{"column":"`+column+`","every":"`+every+`","alias":"t"},"order_by":[{"column":"k"}]}`)
			require.Len(t, rows, len(moments))
			for _, row := range rows {
				var got struct {
					K int
					T *time.Time
				}
				require.NoError(t, json.Unmarshal([]byte(row), &got), row)
				at, there := stored[column+fmt.Sprint(got.K)]
				if !there {
					assert.Nil(t, got.T)
					continue
				}
				seconds, first := int64(length/time.Second), int64(0)
				if length%(7*day) == 0 {
					first = monday.Unix()
				}
				since := at.Unix() - first
				want := time.Unix(at.Unix()-((since%seconds)+seconds)%seconds, 0).UTC()
				assert.Equal(t, want, got.T.UTC(), "%s of %s by %s", column, at, every)
			}
		}
	}
	assert.Equal(t, []string{`{"t":"2011-12-26T00:00:00Z","count":1}`, `{"t":"2012-01-02T00:00:00Z","count":1}`}, e.rows(t, table, policy.OperatorSelect(),
		`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"d","every":"1w","alias":"t"},"filters":[{"column":"k","op":"in","value":[8,9]}],"order_by":[{"column":"t"}]}`))
}
