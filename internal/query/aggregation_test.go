package query_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// orders makes a table with a column of each type that is aggregated in its own
// way: NULLs, a NaN and an infinity among them, and a group without paid orders.
func (e *engine) orders(t *testing.T) *schema.Table {
	t.Helper()
	e.Exec(t, "CREATE TABLE orders (id UInt64, shop String, status Enum8('open' = 1, 'paid' = 2), price Decimal(18, 2), weight Float64, tip Nullable(Int64),"+
		" at DateTime('Europe/Berlin'), seen DateTime64(3, 'UTC'), day Date, city LowCardinality(Nullable(String)), tags Array(String)) ENGINE = MergeTree ORDER BY id")
	e.Exec(t, "INSERT INTO orders SELECT 9007199254740993 + number, ['north', 'south', 'west'][number % 3 + 1], if(number % 3 = 2 OR number % 2 = 0, 'open', 'paid'),"+
		" toDecimal64(number % 7, 2) + 0.1, multiIf(number = 4, nan, number = 5, inf, number / 4), if(number % 5 = 0, NULL, number % 4),"+
		" toDateTime('2026-03-29 00:00:00', 'UTC') + number * 1800, toDateTime64('1969-12-31 23:59:59.250', 3, 'UTC') + number, toDate('2026-03-01') + number % 4,"+
		" if(number % 4 = 0, NULL, ['oslo', 'rome'][number % 2 + 1]), [toString(number % 2)] FROM numbers(60)")
	return e.describe(t, "orders")
}

// asSQL answers a statement written by hand as documents are answered.
func (e *engine) asSQL(t *testing.T, sql string, quoted bool) string {
	t.Helper()
	s := &query.Statement{SQL: sql, Settings: query.ReadSettings(query.FormatJSON, quoted)}
	text, err := e.run(t, s)
	require.NoError(t, err, sql)
	return text
}

// answers are documents and what answers them when it is written by hand.
type answers []struct{ body, sql string }

// hold asks each twice, with numbers and with strings.
func (a answers) hold(t *testing.T, e *engine, table *schema.Table) {
	t.Helper()
	for _, c := range a {
		for _, int64 := range []string{"number", "string"} {
			s, err := build(table, policy.OperatorSelect(), `{"int64":"`+int64+`",`+c.body+`}`)
			require.NoError(t, err, c.body)
			got, err := e.run(t, s)
			require.NoError(t, err, "%s\n%s", c.body, s.SQL)
			assert.Equal(t, e.asSQL(t, c.sql, int64 == "string"), got, "%s\n%s", c.body, s.SQL)
		}
	}
}

func TestAggregationsAnswerWhatIsWrittenByHand(t *testing.T) {
	e := startEngine(t)
	table := e.orders(t)
	each := func(fn, more string, columns ...string) (body, sql []string) {
		for _, c := range columns {
			body = append(body, `{"fn":"`+fn+`","column":"`+c+`"`+more+`}`)
		}
		return body, columns
	}
	all := []string{"id", "shop", "status", "price", "weight", "tip", "at", "seen", "day", "city", "tags"}
	var held answers
	for fn, write := range map[string]struct{ more, sql string }{
		"any_last":         {``, "anyLast(%)"},
		"top_k":            {`,"params":[2]`, "topK(2)(%)"},
		"arg_max":          {`,"by":"at"`, "argMax(%, at)"},
		"arg_min":          {`,"by":"seen"`, "argMin(%, seen)"},
		"group_array":      {`,"params":[3]`, "groupArray(3)(%)"},
		"group_uniq_array": {`,"params":[2]`, "groupUniqArray(2)(%)"},
	} {
		body, columns := each(fn, write.more, all...)
		sql := make([]string, len(columns))
		for i, c := range columns {
			sql[i] = strings.ReplaceAll(write.sql, "%", c) + " AS " + fn + "_" + c
		}
		held = append(held, struct{ body, sql string }{
			`"columns":["shop"],"aggregations":[` + strings.Join(body, ",") + `],"group_by":["shop"],"order_by":[{"column":"shop"}]`,
			"SELECT shop, " + strings.Join(sql, ", ") + " FROM orders GROUP BY shop ORDER BY shop",
		})
	}
	// What decides may be of any type that has an order, and NaN decides nothing.
	for _, by := range []string{"id", "shop", "status", "price", "weight", "tip", "day", "city"} {
		held = append(held, struct{ body, sql string }{
			`"aggregations":[{"fn":"arg_max","column":"id","by":"` + by + `","alias":"most"},{"fn":"arg_min","column":"id","by":"` + by + `","alias":"least"}],"filters":[{"column":"tip","op":"is_not_null"}]`,
			"SELECT argMax(id, " + by + ") AS most, argMin(id, " + by + ") AS least FROM orders WHERE tip IS NOT NULL",
		})
	}
	const bin = ", 'Array(Tuple(lower Float64, upper Float64, count Float64))') AS h"
	held = append(held, answers{
		{`"aggregations":[{"fn":"histogram","column":"id","params":[4],"alias":"h"}]`, "SELECT CAST(histogram(4)(id)" + bin + " FROM orders"},
		{`"aggregations":[{"fn":"histogram","column":"price","alias":"h"}]`, "SELECT CAST(histogram(10)(toFloat64(price))" + bin + " FROM orders"},
		{`"aggregations":[{"fn":"histogram","column":"tip","params":[2],"alias":"h"}]`, "SELECT CAST(histogram(2)(tip)" + bin + " FROM orders"},
		{`"aggregations":[{"fn":"histogram","column":"weight","params":[3],"alias":"h"}]`, "SELECT CAST(histogram(3)(weight)" + bin + " FROM orders WHERE isFinite(weight)"},
		{`"aggregations":[{"fn":"histogram","column":"weight","alias":"h"}],"filters":[{"column":"weight","op":"gt","value":1e300}]`, "SELECT [] AS h"},
		// Of no rows.
		{
			`"aggregations":[{"fn":"any_last","column":"price"},{"fn":"arg_max","column":"status","by":"at"},{"fn":"arg_min","column":"at","by":"id"},{"fn":"top_k","column":"day"},
			{"fn":"group_array","column":"id"},{"fn":"group_uniq_array","column":"tip"},{"fn":"histogram","column":"id"},{"fn":"quantiles","column":"price","params":[0.5]}],"filters":[{"column":"shop","op":"eq","value":"none"}]`,
			"SELECT NULL AS any_last_price, NULL AS arg_max_status, NULL AS arg_min_at, [] AS top_k_day, [] AS group_array_id, [] AS group_uniq_array_tip, [] AS histogram_id, CAST([0.], 'Array(Decimal(18, 2))') AS quantiles_price",
		},
		{
			`"columns":["shop"],"group_by":["shop"],"order_by":[{"column":"r","dir":"desc"},{"column":"shop"}],"aggregations":[
			{"fn":"ratio","alias":"r","numerator":{"fn":"sum","column":"price"},"denominator":{"fn":"count_distinct","column":"day"}},
			{"fn":"ratio","alias":"percent","scale":100,"numerator":{"fn":"count","column":"tip"},"denominator":{"fn":"count"}},
			{"fn":"ratio","alias":"exact","numerator":{"fn":"max","column":"id"},"denominator":{"fn":"min","column":"price"}}]`,
			"SELECT shop, toFloat64(sum(price)) / uniqExact(day) AS r, count(tip) * 100. / count() AS percent, toFloat64(max(id)) / toFloat64(min(price)) AS exact FROM orders GROUP BY shop ORDER BY r DESC, shop",
		},
		{
			`"aggregations":[{"fn":"ratio","numerator":{"fn":"count"},"denominator":{"fn":"sum","column":"tip"}}],"filters":[{"column":"tip","op":"eq","value":0}]`,
			"SELECT NULL AS ratio",
		},
		{`"aggregations":[{"fn":"ratio","numerator":{"fn":"count"},"denominator":{"fn":"count"}}],"filters":[{"column":"id","op":"eq","value":0}]`, "SELECT NULL AS ratio"},
	}...)
	held.hold(t, e, table)
}

func TestDistinctRows(t *testing.T) {
	e := startEngine(t)
	table := e.orders(t)
	answers{
		{`"distinct":true,"columns":["shop","status"],"order_by":[{"column":"status"},{"column":"shop","dir":"desc"}]`, "SELECT DISTINCT shop, status FROM orders ORDER BY status, shop DESC"},
		{`"distinct":true,"columns":["city"],"order_by":[{"column":"city"}],"limit":2`, "SELECT DISTINCT city FROM orders ORDER BY city LIMIT 2"},
		{`"distinct":true,"time_bucket":{"column":"at","every":"12h"},"order_by":[{"column":"time_bucket"}]`, "SELECT DISTINCT toStartOfInterval(at, INTERVAL 12 HOUR, 'UTC') AS time_bucket FROM orders ORDER BY 1"},
	}.hold(t, e, table)
	for body, message := range map[string]string{
		`{"distinct":true,"aggregations":[{"fn":"count"}]}`:                     "distinct",
		`{"distinct":true,"columns":["shop"],"group_by":["shop"]}`:              "distinct",
		`{"distinct":true,"columns":["shop"],"order_by":[{"column":"status"}]}`: "order_by[0]",
	} {
		_, err := build(table, policy.OperatorSelect(), body)
		refusal := asError(t, err)
		assert.Equal(t, query.CodeInvalid, refusal.Code)
		assert.Contains(t, refusal.Message, message)
	}
}
