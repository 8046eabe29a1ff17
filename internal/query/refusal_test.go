package query_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

func replace(body, name string) string { return strings.ReplaceAll(body, "%", name) }

func TestSelectingNothingAndTheStar(t *testing.T) {
	grant := grantOf(t, policy.SelectDocument{AllowColumns: []string{"event_id", "page"}})
	for _, body := range []string{`{}`, `{"columns":[]}`, `{"columns":["*"]}`} {
		_, err := build(pages(), grant, body)
		assert.Equal(t, query.CodeInvalid, asError(t, err).Code, body)
	}
	s, err := build(pages(), grant, `{"select_all":true}`)
	require.NoError(t, err)
	assert.Equal(t, "SELECT wh.`event_id` AS `event_id`, wh.`page` AS `page` FROM `pages` AS wh LIMIT 1000 FORMAT JSONEachRow", s.SQL)
}

func TestTimeRangesThatMeanNothing(t *testing.T) {
	for _, c := range []struct{ rang, names string }{
		{`{"column":"ts"}`, "since"},
		{`{"column":"ts","since":"soon"}`, "time_range.since"},
		{`{"column":"ts","since":"Today"}`, "time_range.since"},
		{`{"column":"ts","since":"1h; DROP"}`, "time_range.since"},
		{`{"column":"ts","since":"--1h"}`, "time_range.since"},
		{`{"column":"ts","since":"-"}`, "time_range.since"},
		{`{"column":"ts","since":"+1d"}`, "time_range.since"},
		{`{"column":"ts","since":"-1M"}`, "time_range.since"},
		{`{"column":"ts","since":"-1.5mo"}`, "time_range.since"},
		{`{"column":"ts","since":"-99999999d"}`, "time_range.since"},
		{`{"column":"ts","since":"-5000y"}`, "outside what the column"},
		{`{"column":"ts","since":"1 h"}`, "time_range.since"},
		{`{"column":"ts","since":"2026-02-30"}`, "time_range.since"},
		{`{"column":"ts","since":"20260101"}`, "could be a date"},
		{`{"column":"ts","since":1e9}`, "exponent"},
		{`{"column":"ts","since":99999999999999999999}`, "out of range"},
		{`{"column":"ts","since":"today","until":"yesterday"}`, "later than until"},
		{`{"column":"ts","since":"1h","time_zone":"Mars/Olympus"}`, "time_range.time_zone"},
		{`{"column":"ts","until":"2026-01-01T00:00:00"}`, "time_range.until"},
		{`{"column":"ts","until":"2026-13-01T00:00:00Z"}`, "time_range.until"},
		{`{"column":"ts","since":"1700-01-01T00:00:00Z"}`, "time_range.since"},
		{`{"column":"ts","until":"9999-01-01T00:00:00Z"}`, "time_range.until"},
		{`{"column":"ts","since":"9999999w"}`, "time_range.since"},
		{`{"column":"ts","since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`, "later than until"},
		{`{"column":"ts","since":"1h","until":"2h"}`, "later than until"},
		{`{"column":"n","since":"1h"}`, "holds no dates or times"},
		{`{"since":"1h"}`, "time_range.column"},
	} {
		_, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"],"time_range":`+c.rang+`}`)
		e := asError(t, err)
		assert.Equal(t, query.CodeInvalid, e.Code, c.rang)
		assert.Contains(t, e.Message, c.names, c.rang)
	}
	for _, since := range []string{`null`, `true`, `[]`, `{}`} {
		_, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"],"time_range":{"column":"ts","since":`+since+`}}`)
		assert.ErrorContains(t, err, "time_range.since", since)
	}
	s, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"],"time_range":{"column":"ts","until":"2026-01-02T00:00:00Z"}}`)
	require.NoError(t, err)
	assert.Contains(t, s.SQL, " WHERE wh.`ts` < {p0:DateTime64(3, 'UTC')} ", "an upper bound alone is applied")
	assert.Equal(t, "2026-01-02 00:00:00.000", s.Params["p0"])
}

func TestRepeatedOutputNames(t *testing.T) {
	for _, body := range []string{
		`{"columns":["page"],"aggregations":[{"fn":"count","column":"*","alias":"page"}],"group_by":["page"]}`,
		`{"columns":["page","page"]}`,
		`{"aggregations":[{"fn":"count"},{"fn":"count"}]}`,
		`{"columns":["ts"],"time_bucket":{"column":"ts","every":"1h","alias":"ts"}}`,
		`{"select_all":true,"aggregations":[{"fn":"count","alias":"n"}]}`,
	} {
		_, err := build(pages(), policy.OperatorSelect(), body)
		assert.Equal(t, query.CodeInvalid, asError(t, err).Code, body)
		assert.ErrorContains(t, err, "two outputs are named")
	}
}

func TestLimits(t *testing.T) {
	grant := grantOf(t, policy.SelectDocument{MaxRows: 5})
	for limit, want := range map[string]string{
		"0": "LIMIT 0", "1": "LIMIT 1", "5": "LIMIT 5", "null": "LIMIT 5",
	} {
		s, err := build(pages(), grant, `{"columns":["n"],"limit":`+limit+`}`)
		require.NoError(t, err, limit)
		assert.Contains(t, s.SQL, " "+want+" FORMAT", limit)
	}
	for _, limit := range []string{"6", "1000000000000000000", "99999999999999999999999999"} {
		_, err := build(pages(), grant, `{"columns":["n"],"limit":`+limit+`}`)
		assert.Equal(t, query.CodeInvalid, asError(t, err).Code)
		assert.ErrorContains(t, err, "the 5 that role.max_rows lets")
		_, err = build(pages(), policy.OperatorSelect(), `{"columns":["n"],"limit":1001}`)
		assert.ErrorContains(t, err, "limit: 1001 rows are more than the 1000 that query.default_max_rows lets an answer have")
	}
	for _, limit := range []string{"-1", `"10"`, "1.5", "0.5", "1.0", "1e2", "true", "[]", "{}"} {
		for _, key := range []string{"limit", "offset"} {
			_, err := query.Parse([]byte(`{"columns":["n"],"` + key + `":` + limit + `}`))
			assert.Equal(t, query.CodeInvalid, asError(t, err).Code, limit)
			assert.ErrorContains(t, err, key)
		}
	}
}

func TestTypingErrorsInTheDocument(t *testing.T) {
	for _, body := range []string{
		`{"column":["page"]}`, `{"colums":["page"]}`, `{"columns":["page"],"columns":["secret"]}`, `null`, `[]`, ``, ` `,
		`{"columns":"page"}`, `{"columns":[1]}`, `{"columns":null}`, `{"select_all":1}`, `{"columns":["page"]} {}`, `{"columns":["page"],}`,
		`{"filters":[{"column":"n","op":"eq","value":1,"value":2}]}`, `{"filters":[{"col":"n"}]}`, "\xef\xbb\xbf{}", `{"columns":["` + "\xff" + `"]}`,
	} {
		_, err := query.Parse([]byte(body))
		assert.Equal(t, query.CodeInvalid, asError(t, err).Code, body)
	}
	_, err := query.Parse([]byte(`{"colums":["page"]}`))
	assert.ErrorContains(t, err, `did you mean "columns"?`)
	_, err = query.Parse([]byte(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`))
	assert.ErrorContains(t, err, "and 2 more")
}

// Who guesses, or comes from SQL, learns from the refusal how it is written here.
func TestARefusalSaysHowItIsDone(t *testing.T) {
	for body, says := range map[string]string{
		`{"order_by":"n"}`:                           `order_by: want an array, not a string, such as [{"column": "score", "dir": "desc"}]`,
		`{"order_by":["n"]}`:                         `order_by[0]: want an object, not a string, such as {"column": "score", "dir": "desc"}`,
		`{"filters":{"n":1}}`:                        `such as [{"column": "score", "op": "gt", "value": 10}]`,
		`{"filters":[{"not":[]}]}`:                   `filters[0].not: want an object, not an array, such as {"column": "score", "op": "gt", "value": 10}`,
		`{"aggregations":["count"]}`:                 `such as {"fn": "sum",`,
		`{"columns":[1]}`:                            `want a string, not a number, such as "page"`,
		`{"select":["n"]}`:                           `; "select" is called "columns"`,
		`{"columns":["n"],"where":[]}`:               `; "where" is called "filters"`,
		`{"time_bucket":{"every":3600}}`:             `such as "1h"`,
		`{"sql":"SELECT 1"}`:                         `sql: unknown key; want one of aggregations, columns,`,
		`{"order_by":[{"column":"n","order":"x"}]}`:  `order_by[0].order: unknown key; want one of column, dir; "order" is called "dir"`,
		`{"time_range":{"column":"ts","from":"1d"}}`: `want one of column, since, time_zone, until; "from" is called "since"`,
	} {
		_, err := query.Parse([]byte(body))
		assert.ErrorContains(t, err, says, body)
	}
	count := `"aggregations":[{"fn":"count","alias":"hits"}]`
	for body, says := range map[string]string{
		`{"columns":["n"],"filters":[{"column":"n","op":"=","value":1}]}`:                     `unknown op "="; did you mean "eq"?`,
		`{"columns":["n"],"filters":[{"column":"n","op":"NIN","value":[1]}]}`:                 `did you mean "not_in"?`,
		`{"columns":["n"],"filters":[{"column":"n","op":"startswith","value":1}]}`:            `did you mean "starts_with"?`,
		`{"columns":["n"],"filters":[{"column":"n","value":1}]}`:                              `unknown op ""; want one of eq, neq,`,
		`{"columns":["n"],"filters":[{"op":"eq","value":1}]}`:                                 `filters[0]: name a column`,
		`{"columns":["n"],"filters":[{"column":"n","op":"eq","value":[1,2]}]}`:                `"in" takes several values`,
		`{"columns":["n"],"filters":[{"column":"n","op":"between","value":5}]}`:               `want two values, [low, high]`,
		`{` + count + `,"filters":[{"column":"hits","op":"gt","value":1}]}`:                   `conditions on aggregations go in having`,
		`{` + count + `,"group_by":["n"],"having":[{"column":"count","op":"gt","value":1}]}`:  `nor grouped by; want one of n, hits`,
		`{` + count + `,"columns":["n"],"group_by":["n"],"order_by":[{"column":"count(*)"}]}`: `no output is called that; want one of n, hits`,
		`{"aggregations":[{"fn":"p95","column":"n"}]}`:                                        `did you mean "quantile"?`,
		`{"aggregations":[{"fn":"Mean","column":"n"}]}`:                                       `did you mean "avg"?`,
		`{"aggregations":[{"fn":"quantile","column":"n","params":[95]}]}`:                     `0.95 is the 95th percentile`,
	} {
		_, err := build(pages(), policy.OperatorSelect(), body)
		assert.ErrorContains(t, err, says, body)
	}
	for filter, says := range map[string]string{
		`{"column":"arr","op":"eq","value":"a"}`: `; "contains" looks for an element, and arr[1] is one`,
		`{"column":"map","op":"eq","value":"a"}`: `; "contains" looks for a key, and map.key is the value of one`,
	} {
		table := tableOf("t", time.UTC, "arr", "Array(String)", "map", "Map(String, UInt8)")
		_, err := build(table, policy.OperatorSelect(), `{"columns":["arr"],"filters":[`+filter+`]}`)
		assert.ErrorContains(t, err, says, filter)
	}
}

func TestRefusedFilters(t *testing.T) {
	cases := []struct{ filter, message string }{
		{`{"column":"i8","op":"eq 1 OR","value":1}`, "unknown op"},
		{`{"column":"i8","op":"","value":1}`, "unknown op"},
		{`{"column":"i8","op":"EQ","value":1}`, "unknown op"},
		{`{"column":"i8","op":"eq"}`, "missing"},
		{`{"column":"i8","op":"eq","value":null}`, "is_null"},
		{`{"column":"i8","op":"eq","value":"abc"}`, "Int8"},
		{`{"column":"i8","op":"eq","value":128}`, "Int8"},
		{`{"column":"i8","op":"eq","value":128.5}`, "Int8"},
		{`{"column":"u64","op":"gt","value":-0.5}`, "UInt64"},
		{`{"column":"i8","op":"eq","value":1e99}`, "Int8"},
		{`{"column":"i8","op":"in","value":[1.5,128]}`, "value 2"},
		{`{"column":"i8","op":"eq","value":[1]}`, "Int8"},
		{`{"column":"i8","op":"eq","value":{"a":1}}`, "Int8"},
		{`{"column":"i8","op":"in","value":1}`, "array"},
		{`{"column":"i8","op":"in"}`, "array"},
		{`{"column":"i8","op":"in","value":null}`, "array"},
		{`{"column":"i8","op":"in","value":[1,null]}`, "null"},
		{`{"column":"i8","op":"in","value":[1,"x"]}`, "value 2"},
		{`{"column":"i8","op":"like","value":"1%"}`, "text"},
		{`{"column":"arr","op":"like","value":"1%"}`, "text"},
		{`{"column":"s","op":"like","value":1}`, "string"},
		{`{"column":"s","op":"like"}`, "missing"},
		{`{"column":"s","op":"like","value":null}`, "null"},
		{`{"column":"s","op":"is_null","value":true}`, "no value"},
		{`{"column":"dec","op":"eq","value":99999999999999999.999}`, "Decimal"},
		{`{"column":"e","op":"eq","value":"zz"}`, "Enum8"},
		{`{"column":"u","op":"eq","value":"zz"}`, "UUID"},
		{`{"column":"ip","op":"eq","value":"1.2.3"}`, "IPv4"},
		{`{"column":"dt","op":"gt","value":"soon"}`, "DateTime"},
		{`{"column":"dt","op":"gt","value":"2400-01-01T00:00:00.5Z"}`, "DateTime"},
		{`{"column":"d","op":"gt","value":"2026-99-01"}`, "Date"},
		{`{"column":"arr","op":"eq","value":["a"]}`, "cannot be compared"},
		{`{"column":"arr","op":"in","value":[["a"]]}`, "cannot be compared"},
		{`{"column":"state","op":"eq","value":1}`, "cannot be compared"},
		{`{"column":"s","op":"eq","value":"` + strings.Repeat("x", 70_000) + `"}`, "longer than"},
	}
	for _, c := range cases {
		_, err := build(types(), policy.OperatorSelect(), `{"columns":["i8"],"filters":[`+c.filter+`]}`)
		e := asError(t, err)
		assert.Equal(t, query.CodeInvalid, e.Code, c.filter)
		assert.Contains(t, e.Message, "filters[0]", c.filter)
		assert.Contains(t, e.Message, c.message, c.filter)
		assert.Less(t, len(e.Message), 400, "a message does not repeat a long value")
	}
}

func TestRefusedAggregationsAndBuckets(t *testing.T) {
	cases := []struct{ body, message string }{
		{`{"aggregations":[{"fn":"summ","column":"n"}]}`, `did you mean "sum"?`},
		{`{"aggregations":[{"fn":"count(*) FROM x"}]}`, "want one of"},
		{`{"aggregations":[{"fn":"sum"}]}`, "needs a column"},
		{`{"aggregations":[{"fn":"sum","column":"*"}]}`, "needs a column"},
		{`{"aggregations":[{"fn":"sum","column":"page"}]}`, "column of numbers"},
		{`{"aggregations":[{"fn":"avg","column":"ts"}]}`, "column of numbers"},
		{`{"aggregations":[{"fn":"median","column":"page"}]}`, `times (Date, DateTime or DateTime64), and "page" is String`},
		{`{"aggregations":[{"fn":"count","params":[1]}]}`, "takes no params"},
		{`{"aggregations":[{"fn":"quantile","column":"n"}]}`, "one level"},
		{`{"aggregations":[{"fn":"quantile","column":"n","params":[0.1,0.2]}]}`, "one level"},
		{`{"aggregations":[{"fn":"quantile","column":"n","params":[1.1]}]}`, "between 0 and 1"},
		{`{"aggregations":[{"fn":"quantile","column":"n","params":[-1e-9]}]}`, "between 0 and 1"},
		{`{"aggregations":[{"fn":"quantiles","column":"n","params":[]}]}`, "1 to 100"},
		{`{"aggregations":[{"fn":"top_k","column":"n","params":[0]}]}`, "from 1 to 1000"},
		{`{"aggregations":[{"fn":"top_k","column":"n","params":[1001]}]}`, "from 1 to 1000"},
		{`{"aggregations":[{"fn":"group_array","column":"n","params":[10001]}]}`, "from 1 to 10000"},
		{`{"aggregations":[{"fn":"group_uniq_array","column":"n","params":[1.5]}]}`, "from 1 to 10000"},
		{`{"aggregations":[{"fn":"histogram","column":"n","params":[251]}]}`, "from 1 to 250"},
		{`{"aggregations":[{"fn":"histogram","column":"n","params":[5, 5]}]}`, "from 1 to 250"},
		{`{"aggregations":[{"fn":"histogram","column":"page"}]}`, "column of numbers"},
		{`{"aggregations":[{"fn":"arg_max","column":"n"}]}`, `needs "by"`},
		{`{"aggregations":[{"fn":"arg_min","by":"n"}]}`, "needs a column"},
		{`{"aggregations":[{"fn":"arg_max","column":"n","by":"nope"}]}`, "aggregations[0].by"},
		{`{"aggregations":[{"fn":"max","column":"n","by":"n"}]}`, `takes no "by"`},
		{`{"aggregations":[{"fn":"count","numerator":{"fn":"count"}}]}`, "numerator"},
		{`{"aggregations":[{"fn":"ratio"}]}`, "aggregations[0].numerator: a ratio needs one"},
		{`{"aggregations":[{"fn":"ratio","numerator":{"fn":"count"}}]}`, "aggregations[0].denominator: a ratio needs one"},
		{`{"aggregations":[{"fn":"ratio","column":"n","numerator":{"fn":"count"},"denominator":{"fn":"count"}}]}`, "numerator and a denominator"},
		{`{"aggregations":[{"fn":"ratio","numerator":{"fn":"ratio"},"denominator":{"fn":"count"}}]}`, "no ratio in it"},
		{`{"aggregations":[{"fn":"ratio","numerator":{"fn":"count","alias":"x"},"denominator":{"fn":"count"}}]}`, "alias"},
		{`{"aggregations":[{"fn":"ratio","numerator":{"fn":"max","column":"page"},"denominator":{"fn":"count"}}]}`, "no number to divide"},
		{`{"aggregations":[{"fn":"ratio","numerator":{"fn":"count"},"denominator":{"fn":"top_k","column":"n"}}]}`, "no number to divide"},
		{`{"aggregations":[{"fn":"ratio","scale":1e999,"numerator":{"fn":"count"},"denominator":{"fn":"count"}}]}`, "scale"},
		{`{"aggregations":[{"fn":"count","alias":"` + strings.Repeat("x", 257) + `"}]}`, "alias"},
		{`{"columns":["n"],"time_bucket":{"column":"ts","every":"5m","alias":"` + strings.Repeat("x", 257) + `"}}`, "alias"},
		{`{"columns":["n"],"time_bucket":{"column":"ts","every":""}}`, "time_bucket.every"},
		{`{"columns":["n"],"time_bucket":{"column":"ts","every":"0"}}`, "time_bucket.every"},
		{`{"columns":["n"],"time_bucket":{"column":"ts","every":"100ms"}}`, "time_bucket.every"},
		{`{"columns":["n"],"time_bucket":{"column":"ts","every":"1.5s"}}`, "time_bucket.every"},
		{`{"columns":["n"],"time_bucket":{"column":"n","every":"5m"}}`, "holds no dates or times"},
		{`{"columns":["n"],"order_by":[{"column":"n","dir":"DESC, x"}]}`, "dir"},
		{`{"columns":["n"],"int64":"text"}`, "int64"},
		{`{"columns":["n"],"select_all":true}`, "select_all"},
	}
	for _, c := range cases {
		_, err := build(pages(), policy.OperatorSelect(), c.body)
		e := asError(t, err)
		assert.Equal(t, query.CodeInvalid, e.Code, c.body)
		assert.Contains(t, e.Message, c.message, c.body)
	}
	_, err := build(types(), policy.OperatorSelect(), `{"columns":["i8"],"time_bucket":{"column":"d","every":"1h"}}`)
	assert.ErrorContains(t, err, "whole days")
}

// What ClickHouse takes no quantiles of is refused before it is asked, and nothing else.
func TestQuantilesAreOfWhatClickHouseTakes(t *testing.T) {
	e := startEngine(t)
	for _, typ := range []string{
		"Int8", "UInt256", "Float32", "Decimal(76, 3)", "Bool", "Nullable(Int64)", "Date", "DateTime", "DateTime64(3)", "SimpleAggregateFunction(sum, Int64)",
		"Date32", "Time", "Time64(3)", "BFloat16", "IntervalDay", "Enum8('a' = 1)", "String", "FixedString(2)", "LowCardinality(Nullable(String))", "UUID",
		"IPv4", "Array(Int8)", "Tuple(Int8)", "Map(String, Int8)",
	} {
		_, refused := e.Try("SELECT median(defaultValueOfTypeName(" + clickhouse.QuoteString(typ) + ")) SETTINGS enable_time_time64_type = 1")
		for fn, params := range map[string]string{"median": "", "quantile": `,"params":[0.5]`, "quantiles": `,"params":[0.5]`} {
			_, err := build(tableOf("t", time.UTC, "v", typ), policy.OperatorSelect(), fmt.Sprintf(`{"aggregations":[{"fn":%q,"column":"v"%s}]}`, fn, params))
			if refused != nil {
				assert.ErrorContains(t, err, "needs a column of", "%s of %s: %v", fn, typ, refused)
			} else {
				assert.NoError(t, err, "%s of %s", fn, typ)
			}
		}
	}
}

func TestATimeThatIsNoneIsToldWhatOneIs(t *testing.T) {
	for column, want := range map[string]string{"dt": `"2026-06-21T04:00:00Z"`, "t6": "goes in time_range", "d": `a day such as "2026-06-21"`, "d32": "goes in time_range"} {
		_, err := build(types(), policy.OperatorSelect(), fmt.Sprintf(`{"columns":["i8"],"filters":[{"column":%q,"op":"gte","value":"yesterday"}]}`, column))
		assert.ErrorContains(t, err, want, column)
	}
}

func TestListsAreBounded(t *testing.T) {
	many := func(item string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	for clause, item := range map[string]string{
		"columns": `"n"`, "group_by": `"n"`, "order_by": `{"column":"n"}`, "aggregations": `{"fn":"count"}`,
		"filters": `{"column":"n","op":"is_null"}`, "having": `{"column":"n","op":"is_null"}`,
	} {
		_, err := build(pages(), policy.OperatorSelect(), fmt.Sprintf(`{%q:%s}`, clause, many(item, 1001)))
		assert.ErrorContains(t, err, clause+": a list of 1001 entries is longer than the 1000", clause)
	}
	_, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"],"filters":[{"column":"n","op":"in","value":`+many("1", 100_001)+`}]}`)
	assert.ErrorContains(t, err, "100000")
	long := `{"column":"page","op":"neq","value":"` + strings.Repeat("x", 60_000) + `"}`
	_, err = build(pages(), policy.OperatorSelect(), `{"columns":["n"],"filters":`+many(long, 5)+`}`)
	assert.ErrorContains(t, err, "together")
}
