package query_test

import (
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

// paged compiles a document that may have pages.
func paged(t testing.TB, cursors *query.Cursors, table *schema.Table, body string, at time.Time) *query.Statement {
	t.Helper()
	doc, err := query.Parse([]byte(body))
	require.NoError(t, err)
	o := options()
	o.Now, o.Ahead, o.Cursors, o.Tenant = at, true, cursors, "0"
	s, err := query.Build(doc, table, policy.OperatorSelect().Bind(nil, nil), o)
	require.NoError(t, err, body)
	return s
}

func cursorsOf(t testing.TB, secret string) *query.Cursors {
	t.Helper()
	c, err := query.NewCursors([]byte(secret))
	require.NoError(t, err)
	return c
}

func TestAPageBeginsBehindTheRowBefore(t *testing.T) {
	cursors, table := cursorsOf(t, "secret"), pages()
	table.SortingKey = []string{"event_id"}
	const body = `{"columns":["n"],"order_by":[{"column":"ts","dir":"desc"},{"column":"f"}],"limit":5`
	table = tableOf("pages", time.UTC, "event_id", "String", "n", "Int64", "ts", "DateTime64(3, 'UTC')", "f", "Nullable(Float64)")
	table.SortingKey = []string{"event_id"}
	first := paged(t, cursors, table, body+`,"cursor":""}`, now)
	assert.Contains(t, first.SQL, " ORDER BY wh.`ts` DESC, materialize(wh.`f`) ASC, wh.`event_id` ASC LIMIT 6 ")
	page := first.Page()
	key := func(parts ...string) string {
		for i, p := range parts {
			if p != "N" && p != "X" {
				parts[i] = strings.ToUpper(fmt.Sprintf("%x", p))
			}
		}
		return strings.Join(parts, ".")
	}
	last := key("2026-01-01 00:00:00.500", "1.5", "e1")
	require.True(t, page.Apart(last, key("2026-01-01 00:00:00.500", "1.5", "e2")))
	require.False(t, page.Apart(last, last), "nobody knows in which order these two come")
	for _, c := range []struct{ last, condition string }{
		{last, "(wh.`ts` < {p0:DateTime64(3, 'UTC')} OR wh.`ts` = {p0:DateTime64(3, 'UTC')} AND (wh.`f` > {p1:Float64} OR isNaN(wh.`f`) OR wh.`f` IS NULL" +
			" OR wh.`f` = {p1:Float64} AND (wh.`event_id` > {p2:String})))"},
		{key("2026-01-01 00:00:00.500", "X", "e1"), "(wh.`ts` < {p0:DateTime64(3, 'UTC')} OR wh.`ts` = {p0:DateTime64(3, 'UTC')} AND (wh.`f` IS NULL" +
			" OR isNaN(wh.`f`) AND (wh.`event_id` > {p1:String})))"},
		{key("2026-01-01 00:00:00.500", "N", "e1"), "(wh.`ts` < {p0:DateTime64(3, 'UTC')} OR wh.`ts` = {p0:DateTime64(3, 'UTC')} AND (0" +
			" OR wh.`f` IS NULL AND (wh.`event_id` > {p1:String})))"},
	} {
		cursor := page.Cursor(c.last, key("2026-01-01 00:00:00.500", "N", "z"), 1, false)
		next := paged(t, cursors, table, body+`,"cursor":"`+cursor+`"}`, now.Add(time.Hour))
		assert.Contains(t, next.SQL, " WHERE wh.`ts` <= {p0:DateTime64(3, 'UTC')} AND "+c.condition+" ORDER BY ")
		assert.Equal(t, "2026-01-01 00:00:00.500", next.Params["p0"])
	}
	group, err := page.Group(last, 2)
	require.NoError(t, err)
	assert.Contains(t, group.SQL, " WHERE (wh.`ts` = {p0:DateTime64(3, 'UTC')} AND wh.`f` = {p1:Float64} AND wh.`event_id` = {p2:String}) ORDER BY ")
	assert.Contains(t, group.SQL, "cityHash64(tuple(wh.`n`)) ASC LIMIT 3 ")
}

func TestARelativeRangeHoldsForAllPages(t *testing.T) {
	cursors := cursorsOf(t, "secret")
	const body = `{"columns":["n"],"order_by":[{"column":"n"}],"limit":5,"time_range":{"column":"ts","since":"1h"}`
	first := paged(t, cursors, pages(), body+`,"cursor":""}`, now)
	next := paged(t, cursors, pages(), body+`,"cursor":"`+first.Page().Cursor("31", "32", 1, false)+`"}`, now.Add(3*time.Hour))
	assert.Contains(t, fmt.Sprint(next.Params), first.Params["p0"])
}

// A cursor shows nothing of the values that it holds, and equal ones are equal.
func TestCursorsAreSealed(t *testing.T) {
	const body = `{"columns":["n"],"order_by":[{"column":"secret"}],"limit":5`
	ours, others := cursorsOf(t, "secret"), cursorsOf(t, "another")
	page := paged(t, ours, pages(), body+`,"cursor":""}`, now).Page()
	key := "736563726574"
	cursor := page.Cursor(key, "FF", 1, false)
	assert.Equal(t, cursor, page.Cursor(key, "FF", 1, false))
	assert.NotEqual(t, cursor, page.Cursor(key, key, 1, false))
	assert.Equal(t, cursor, paged(t, cursorsOf(t, "secret"), pages(), body+`,"cursor":""}`, now).Page().Cursor(key, "FF", 1, false), "another process has the same key")
	assert.Empty(t, page.Cursor("L", "FF", 1, false), "a value that was too long")
	assert.Empty(t, page.Cursor(strings.Repeat("00", 4000), "FF", 1, false))

	doc, err := query.Parse([]byte(body + `,"cursor":"` + cursor + `"}`))
	require.NoError(t, err)
	o := options()
	o.Ahead, o.Cursors, o.Tenant = true, others, "0"
	_, err = query.Build(doc, pages(), policy.OperatorSelect().Bind(nil, nil), o)
	assert.Equal(t, query.CodeCursorInvalid, asError(t, err).Code)
	o.Cursors, o.Tenant = ours, "1"
	_, err = query.Build(doc, pages(), policy.OperatorSelect().Bind(nil, nil), o)
	assert.Equal(t, query.CodeCursorInvalid, asError(t, err).Code, "of another tenant")
	assert.ErrorContains(t, err, "another table")
	o.Tenant = "0"
	_, err = query.Build(doc, pages(), policy.OperatorSelect().Bind(nil, nil), o)
	require.NoError(t, err)
	_, err = query.Build(doc, pages(), grantOf(t, policy.SelectDocument{AllowColumns: []string{"n", "secret"}}).Bind(nil, nil), o)
	assert.Equal(t, query.CodeCursorInvalid, asError(t, err).Code, "of a caller who may see more")
	assert.ErrorContains(t, err, "other rows or columns")
}

// What is not asked for costs nothing: only a document that names a cursor reads the
// keys of its rows and orders them further.
func TestADocumentWithoutACursorIsAskedAsItStands(t *testing.T) {
	table := pages()
	table.SortingKey = []string{"event_id"}
	for _, body := range []string{
		`{"columns":["n"]}`, `{"columns":["n"],"limit":5}`, `{"columns":["n"],"order_by":[{"column":"n"}]}`,
		`{"columns":["n"],"order_by":[{"column":"n"}],"limit":5,"offset":1}`, `{"columns":["n"],"order_by":[{"column":"n"}],"limit":0}`,
		`{"columns":["n"],"order_by":[{"column":"n","dir":"desc"}],"limit":5}`, `{"select_all":true,"order_by":[{"column":"ts"}],"limit":5}`,
		`{"columns":["page"],"distinct":true,"order_by":[{"column":"page"}],"limit":5}`,
		`{"columns":["page"],"group_by":["page"],"aggregations":[{"fn":"count","alias":"c"}],"order_by":[{"column":"c"}],"limit":5}`,
	} {
		doc, err := query.Parse([]byte(body))
		require.NoError(t, err)
		o := options()
		o.Ahead = true
		want, err := query.Build(doc, table, policy.OperatorSelect().Bind(nil, nil), o)
		require.NoError(t, err)
		s := paged(t, cursorsOf(t, "secret"), table, body, o.Now)
		assert.Nil(t, s.Page(), body)
		assert.Equal(t, want.SQL, s.SQL)
		assert.Equal(t, want.Params, s.Params)
		assert.Equal(t, want.Settings, s.Settings)
	}
}

// A page that is read as rows are stored is not read ahead of.
func TestAPageInTheOrderOfTheTableReadsLittle(t *testing.T) {
	cursors, table := cursorsOf(t, "secret"), pages()
	table.SortingKey = []string{"ts", "event_id"}
	for _, c := range []struct {
		order, filters   string
		little, oneByOne bool
	}{
		{`[{"column":"ts","dir":"desc"}]`, "", true, true},
		{`[{"column":"ts","dir":"desc"}]`, `,"filters":[{"column":"n","op":"eq","value":1}]`, true, false},
		{`[{"column":"ts","dir":"desc"},{"column":"n"}]`, "", true, false},
		{`[{"column":"n"},{"column":"ts"}]`, "", false, false},
	} {
		body := `{"columns":["n"],"limit":5,"order_by":` + c.order + c.filters
		first := paged(t, cursors, table, body+`,"cursor":""}`, now)
		parts := strings.Count(first.SQL, "hex(toString(")
		key := strings.Repeat("31.", parts-1) + "31"
		next := paged(t, cursors, table, body+`,"cursor":"`+first.Page().Cursor(key, "32", 1, false)+`"}`, now)
		assert.NotContains(t, first.Settings, "read_in_order_use_buffering")
		assert.Equal(t, c.little, next.Settings["read_in_order_use_buffering"] == "0", body)
		assert.Equal(t, c.oneByOne, next.Settings["max_threads"] == "1", body)
	}
}

// A cut answer whose rows show what they are ordered by has a cursor, without having
// asked for one.
func TestACursorIsMadeOfWhatIsAnswered(t *testing.T) {
	table := tableOf("pages", time.UTC, "s", "String", "n", "Nullable(Int64)", "ts", "DateTime64(3, 'UTC')", "f", "Float64", "e", "Enum8('a' = 1)")
	table.SortingKey = []string{"s"}
	cursors := cursorsOf(t, "secret")
	for _, c := range []struct{ order, last, next, condition string }{
		{`[{"column":"n"}]`, `{"n":1}`, `{"n":2}`, "(wh.`n` > {p0:Int64} OR wh.`n` IS NULL)"},
		{`[{"column":"n"},{"column":"n"}]`, `{"n":1}`, `{"n":2}`, "(wh.`n` > {p0:Int64} OR wh.`n` IS NULL)"},
		{`[{"column":"n"}]`, `{"n":"1"}`, `{"n":null}`, "(wh.`n` > {p0:Int64} OR wh.`n` IS NULL)"},
		{`[{"column":"s","dir":"desc"},{"column":"n"}]`, `{"n":null,"s":"null"}`, `{"n":1,"s":"a"}`, "wh.`s` <= {p0:String} AND (wh.`s` < {p0:String} OR wh.`s` = {p0:String} AND (0))"},
		{`[{"column":"ts"},{"column":"e"}]`, `{"ts":"1969-12-31T23:59:59.999Z","e":"a"}`, `{"ts":"1970-01-01T00:00:00.000Z","e":"a"}`,
			"wh.`ts` >= {p0:DateTime64(3, 'UTC')} AND (wh.`ts` > {p0:DateTime64(3, 'UTC')} OR wh.`ts` = {p0:DateTime64(3, 'UTC')} AND (wh.`e` > {p1:String}))"},
		{`[{"column":"n"}]`, `{"n":1}`, `{"n":1}`, ""},                     // which come first is not known
		{`[{"column":"n"}]`, `{"s":"a"}`, `{"s":"b"}`, ""},                 // not answered
		{`[{"column":"f"}]`, `{"f":-0}`, `{"f":0}`, ""},                    // equal, and not the same
		{`[{"column":"s"}]`, `{"s":"\ufffd"}`, `{"s":"\ufffd\ufffd"}`, ""}, // other bytes
		{`[{"column":"s"}]`, `{"s":"` + strings.Repeat("a", 1025) + `"}`, `{"s":"b"}`, ""},
	} {
		body := `{"select_all":true,"limit":5,"order_by":` + c.order
		first := paged(t, cursors, table, body+"}", now)
		require.True(t, first.Continues())
		cursor := first.Cursor([]byte(c.last), []byte(c.next))
		require.Equal(t, c.condition != "", cursor != "", c.last)
		if cursor != "" {
			next := paged(t, cursors, table, body+`,"cursor":"`+cursor+`"}`, now.Add(time.Hour))
			assert.Contains(t, next.SQL, " WHERE "+c.condition+" ORDER BY ")
		}
	}
}
