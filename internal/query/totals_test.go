package query_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

// events are the rows and the totals of an answer with totals.
func events(t *testing.T, text string) (rows []string, totals string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var event struct{ Row, Totals json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(line), &event), line)
		if event.Row != nil {
			rows = append(rows, string(event.Row))
		}
		if event.Totals != nil {
			totals = string(event.Totals)
		}
	}
	return rows, totals
}

// Totals are the aggregations over the rows of all groups in the answer, whatever
// limit leaves out of it; what is grouped by is null in them.
func TestTotalsAreWhatTheGroupsAreTogether(t *testing.T) {
	e := startEngine(t)
	table := e.orders(t)
	const aggregations = `"int64":"string","totals":true,"aggregations":[{"fn":"count","alias":"n"},{"fn":"sum","column":"price"},{"fn":"count_distinct","column":"day"},{"fn":"max","column":"id"},
		{"fn":"arg_min","column":"status","by":"at"},{"fn":"count","alias":"paid","where":[{"column":"status","op":"eq","value":"paid"}]},{"fn":"ratio","numerator":{"fn":"count","column":"tip"},"denominator":{"fn":"count"}}]`
	const byHand = `SELECT % count() AS n, sum(price) AS sum_price, uniqExact(day) AS count_distinct_day, max(id) AS max_id, argMin(status, at) AS arg_min_status,
		countIf(status = 'paid') AS paid, count(tip) / count() AS ratio FROM orders `
	for _, c := range []struct{ keys, rest, where string }{
		{`"columns":["shop"],"group_by":["shop"],"order_by":[{"column":"shop","dir":"desc"}]`, "NULL AS shop,", ""},
		{`"columns":["shop"],"group_by":["shop"],"limit":1`, "NULL AS shop,", ""},
		{`"columns":["shop"],"group_by":["shop"],"order_by":[{"column":"paid"}],"having":[{"column":"paid","op":"gt","value":0},{"column":"shop","op":"neq","value":"south"}]`, "NULL AS shop,", "WHERE shop = 'north'"},
		{`"columns":["shop"],"group_by":["shop"],"filters":[{"column":"shop","op":"eq","value":"none"}]`, "NULL AS shop,", "WHERE 0"},
		{`"columns":["city","status","day","at","tags"],"group_by":["tags","city","status","day","at"],"order_by":[{"column":"at"}]`, "NULL AS city, NULL AS status, NULL AS day, NULL AS at, CAST([], 'Array(String)') AS tags,", ""},
		{`"group_by":["price","seen"],"order_by":[{"column":"price"},{"column":"seen"}],"having":[{"column":"price","op":"gte","value":0.1}]`, "", ""},
		{`"time_bucket":{"column":"at","every":"1d","alias":"day"},"order_by":[{"column":"day"}],"having":[{"column":"day","op":"lt","value":"2026-03-30T00:00:00Z"}]`, "NULL AS day,", "WHERE at < toDateTime('2026-03-30 00:00:00', 'UTC')"},
	} {
		s, err := build(table, policy.OperatorSelect(), `{`+c.keys+`,`+aggregations+`}`)
		require.NoError(t, err, c.keys)
		text, err := e.run(t, s)
		require.NoError(t, err, s.SQL)
		_, totals := events(t, text)
		sql := strings.Replace(byHand, "%", c.rest, 1) + c.where
		if strings.Contains(c.rest, "NULL AS day,") {
			sql = strings.Replace(sql, "uniqExact(day)", "uniqExact(orders.day)", 1)
		}
		if strings.Contains(c.rest, "status") {
			sql = strings.NewReplacer("argMin(status", "argMin(orders.status", "countIf(status", "countIf(orders.status", ", at)", ", orders.at)").Replace(sql)
		}
		want := e.rowsBySQL(t, sql+" SETTINGS prefer_column_name_to_alias = 1")
		if c.where == "WHERE 0" {
			want = strings.NewReplacer(`"arg_min_status":"open"`, `"arg_min_status":null`, `"max_id":"0"`, `"max_id":"0"`).Replace(want)
		}
		assert.Equal(t, want, totals, s.SQL)
		// The rows are those without totals.
		s, err = build(table, policy.OperatorSelect(), strings.Replace(`{`+c.keys+`,`+aggregations+`}`, `"totals":true,`, "", 1))
		require.NoError(t, err)
		if !strings.Contains(c.keys, "order_by") {
			continue
		}
		plain, err := e.run(t, s)
		require.NoError(t, err)
		rows, _ := events(t, text)
		assert.JSONEq(t, plain, "["+strings.Join(rows, ",")+"]")
	}
}

// rowsBySQL is the one row that a statement answers.
func (e *engine) rowsBySQL(t *testing.T, sql string) string {
	t.Helper()
	var rows []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(e.asSQL(t, sql, true)), &rows))
	require.Len(t, rows, 1)
	return string(rows[0])
}

func TestRefusedTotals(t *testing.T) {
	for body, message := range map[string]string{
		`{"totals":true,"columns":["n"]}`:                  "has none",
		`{"totals":true,"columns":["n"],"group_by":["n"]}`: "has none",
		`{"totals":true,"aggregations":[{"fn":"count"}]}`:  "its own total",
	} {
		_, err := build(pages(), policy.OperatorSelect(), body)
		assert.ErrorContains(t, err, message)
		assert.Equal(t, query.CodeInvalid, asError(t, err).Code)
	}
	doc, err := query.Parse([]byte(`{"totals":true,"aggregations":[{"fn":"count"}],"group_by":["n"]}`))
	require.NoError(t, err)
	for _, format := range []query.Format{query.FormatNDJSON, query.FormatCSV, query.FormatTSV, query.FormatArrow, query.FormatParquet} {
		_, err := query.Build(doc, pages(), policy.OperatorSelect().Bind(nil, nil), query.Options{Format: format})
		assert.ErrorContains(t, err, "totals: only a JSON answer")
	}
}
