package query_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// birch may read the rows of one organisation, and not the columns org and
// secret.
func birch(t testing.TB, table *schema.Table) *policy.BoundSelect {
	t.Helper()
	return grantOf(t, policy.SelectDocument{
		DenyColumns: []string{"org", "secret"}, Filter: json.RawMessage(`{"org":{"_eq":"{{ jwt.org }}"}}`),
	}).Bind(map[string]any{"org": "birch"}, table.Record)
}

func buildBound(t testing.TB, table *schema.Table, bound *policy.BoundSelect, body string) (*query.Statement, error) {
	t.Helper()
	doc, err := query.Parse([]byte(body))
	if err != nil {
		return nil, err
	}
	return query.Build(doc, table, bound, options())
}

func TestTheSQLOfARowRule(t *testing.T) {
	for filter, want := range map[string]string{
		`{"org":{"_eq":"x"}}`:                                 "((wh.`org` = {p0:String}))",
		`{"org":{"_neq":"x","_gt":"a"}}`:                      "((wh.`org` > {p0:String}) AND (wh.`org` != {p1:String}))",
		`{"_or":[{"n":{"_gte":1}},{"n":{"_lt":0,"_lte":1}}]}`: "((((wh.`n` >= {p0:Int64})) OR ((wh.`n` < {p1:Int64}) AND (wh.`n` <= {p2:Int64}))))",
		`{"_not":{"n":{"_is_null":true}}}`:                    "(NOT ((wh.`n` IS NULL)))",
		`{"org":{"_is_null":false}}`:                          "((wh.`org` IS NOT NULL))",
		`{"org":{"_like":"a%"}}`:                              "((wh.`org` LIKE {p0:String} AND isValidUTF8(wh.`org`)))",
		`{"n":{"_in":[1,2]}}`:                                 "((wh.`n` IN (SELECT v FROM wh_in0)))",
		`{"n":{"_nin":[1,2]}}`:                                "((wh.`n` NOT IN (SELECT v FROM wh_in0)))",
	} {
		bound := grantOf(t, policy.SelectDocument{Filter: json.RawMessage(filter)}).Bind(nil, pages().Record)
		sql, params, err := query.RowRule(pages(), bound)
		require.NoError(t, err)
		assert.Equal(t, want, sql, filter)
		assert.Len(t, params, strings.Count(want, "{"))
	}
	for filter, want := range map[string]string{
		`{"f":{"_lt":1}}`:       "((if(isNaN(wh.`f`), NULL, wh.`f` < {p0:Float64})))",
		`{"f":{"_nin":[1,2]}}`:  "((if(isNaN(wh.`f`), NULL, NOT (wh.`f` >= {p0:Float64} AND wh.`f` <= {p1:Float64} OR wh.`f` >= {p2:Float64} AND wh.`f` <= {p3:Float64}))))",
		`{"lc":{"_nin":["a"]}}`: "((if(wh.`lc` IS NULL, NULL, wh.`lc` NOT IN (SELECT v FROM wh_in0))))",
	} {
		sql, _, err := query.RowRule(types(), grantOf(t, policy.SelectDocument{Filter: json.RawMessage(filter)}).Bind(nil, types().Record))
		require.NoError(t, err)
		assert.Equal(t, want, sql, filter)
	}
	sql, _, err := query.RowRule(pages(), policy.OperatorSelect().Bind(nil, nil))
	require.NoError(t, err)
	assert.Empty(t, sql)
	sql, _, err = query.RowRule(pages(), grantOf(t, policy.SelectDocument{Filter: json.RawMessage(`{"org":{"_neq":"{{ jwt.x }}"}}`)}).Bind(nil, pages().Record))
	require.NoError(t, err)
	assert.Equal(t, "0", sql, "a claim that is missing")
}

func TestARowRuleThatDoesNotFitRefusesTheQuery(t *testing.T) {
	grant := grantOf(t, policy.SelectDocument{Filter: json.RawMessage(`{"org":{"_eq":"birch"}}`)})
	renamed := tableOf("pages", nil, "event_id", "String", "org2", "String")
	retyped := tableOf("pages", nil, "event_id", "String", "org", "FixedString(9)")
	for name, c := range map[string]struct {
		table *schema.Table
		bound *policy.BoundSelect
	}{
		"no such column":                  {renamed, grant.Bind(nil, renamed.Record)},
		"bound to the table as it was":    {renamed, grant.Bind(nil, pages().Record)},
		"bound to another type of column": {retyped, grant.Bind(nil, pages().Record)},
		"bound to no table":               {pages(), grant.Bind(nil, nil)},
	} {
		_, err := buildBound(t, c.table, c.bound, `{"columns":["event_id"]}`)
		e := asError(t, err)
		assert.Equal(t, query.CodeColumnNotAllowed, e.Code, name)
		assert.NotContains(t, e.Message, "org", "%s: the caller is not told of the rule", name)
		_, _, err = query.RowRule(c.table, c.bound)
		require.Error(t, err)
	}
}

// escapes are attempts to see a hidden row or a denied column through every
// clause of the document. Each is refused, or shows nothing of cedar.
func escapes() []string {
	attempts := []string{
		`{"select_all":true}`, `{"columns":["event_id","page","n","ts"]}`, `{"columns":["org"]}`, `{"columns":["secret"]}`, `{"columns":["*"]}`,
		"{\"columns\":[\"wh.org\"]}", "{\"columns\":[\"`org`\"]}", `{"columns":["event_id` + "`, `org" + `"]}`, `{"columns":["pages.secret"]}`, `{"columns":["event_id, secret"]}`,
		`{"aggregations":[{"fn":"any","column":"org"}]}`, `{"aggregations":[{"fn":"max","column":"secret","alias":"n"}]}`, `{"aggregations":[{"fn":"count","column":"secret"}]}`,
		`{"aggregations":[{"fn":"count_distinct","column":"org"}]}`, `{"aggregations":[{"fn":"uniq","column":"event_id) OR (1"}]}`,
		`{"aggregations":[{"fn":"count"}]}`, `{"aggregations":[{"fn":"count","alias":"org"}]}`, `{"aggregations":[{"fn":"any","column":"event_id","alias":"org"}]}`,
		`{"aggregations":[{"fn":"max","column":"event_id","alias":"wh"}]}`, `{"aggregations":[{"fn":"max","column":"event_id","alias":"wh.org"}]}`,
		`{"aggregations":[{"fn":"max","column":"event_id","alias":"pages"}]}`, `{"aggregations":[{"fn":"count","alias":"x WHERE 1 --"}]}`,
		`{"columns":["page"],"aggregations":[{"fn":"max","column":"event_id","alias":"org"}],"group_by":["page"],"order_by":[{"column":"org"}]}`,
		`{"aggregations":[{"fn":"count; DROP TABLE pages","column":"n"}]}`, `{"aggregations":[{"fn":"quantile","column":"n","params":["0.5) OR (1"]}]}`,
		`{"columns":["event_id"],"filters":[{"column":"org","op":"eq","value":"cedar"}]}`, `{"columns":["event_id"],"filters":[{"column":"secret","op":"like","value":"%"}]}`,
		`{"columns":["event_id"],"filters":[{"column":"org","op":"is_not_null"}]}`, `{"columns":["event_id"],"filters":[{"column":"org","op":"in","value":["cedar"]}]}`,
		`{"columns":["event_id"],"filters":[{"column":"page","op":"eq","value":"\") OR (1=1) OR (org='"}]}`, `{"columns":["event_id"],"filters":[{"column":"page","op":"neq","value":"') OR 1 OR ('"}]}`,
		`{"columns":["event_id"],"filters":[{"column":"org) OR (1=1","op":"eq","value":"x"}]}`, `{"columns":["event_id"],"filters":[{"column":"page","op":"eq OR 1","value":"x"}]}`,
		`{"columns":["event_id"],"filters":[{"column":"page","op":"like","value":"%"}]}`, `{"columns":["event_id"],"filters":[{"column":"page","op":"not_like","value":"\\"}]}`,
		`{"columns":["event_id"],"filters":[{"column":"page","op":"in","value":["/home","/docs","' OR 1"]}]}`, `{"columns":["event_id"],"filters":[{"column":"page","op":"not_in","value":[]}]}`,
		`{"columns":["event_id"],"filters":[{"column":"event_id","op":"in","value":["{p0:String}","wh_in0","e1","e2","e3","e0"]}]}`,
		`{"columns":["event_id"],"filters":[{"column":"n","op":"gte","value":"0 OR 1"}]}`, `{"columns":["event_id"],"filters":[{"column":"page","op":"eq","value":"{p0:String}"}]}`,
		`{"columns":["event_id"],"group_by":["event_id"]}`, `{"columns":["page"],"group_by":["page","org"]}`, `{"columns":["page"],"group_by":["secret"]}`, `{"aggregations":[{"fn":"count"}],"group_by":["org"]}`,
		`{"columns":["event_id"],"order_by":[{"column":"org"}]}`, `{"columns":["event_id"],"order_by":[{"column":"secret","dir":"desc"}]}`, `{"columns":["event_id"],"order_by":[{"column":"event_id","dir":"asc LIMIT 9"}]}`,
		`{"columns":["event_id"],"order_by":[{"column":"1"}]}`, `{"columns":["event_id"],"limit":0}`, `{"columns":["event_id"],"limit":1000000,"offset":0}`, `{"columns":["event_id"],"offset":1}`,
		`{"columns":["event_id"],"limit":"1 UNION ALL SELECT secret FROM pages"}`,
		`{"columns":["event_id"],"time_range":{"column":"ts","since":"100w"}}`, `{"columns":["event_id"],"time_range":{"column":"secret","since":"1h"}}`, `{"columns":["event_id"],"time_range":{"column":"ts","since":"1h') OR 1"}}`,
		`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"ts","every":"1h","alias":"org"}}`, `{"aggregations":[{"fn":"max","column":"event_id"}],"time_bucket":{"column":"ts","every":"1h","alias":"wh.org"},"group_by":["wh.org"]}`,
		`{"columns":["event_id"],"time_bucket":{"column":"org","every":"1h"}}`, `{"columns":["event_id"],"time_bucket":{"column":"ts","every":"1h'","alias":"x"}}`,
		`{"columns":["event_id"],"int64":"string; DROP"}`, `{"columns":["event_id"],"filter":{}}`, `{"columns":["event_id"],"where":"1"}`,
	}
	for _, column := range []string{"org", "secret", "wh.org", "n) FROM pages --"} {
		attempts = append(attempts, fmt.Sprintf(`{"aggregations":[{"fn":"arg_max","column":"event_id","by":%q}]}`, column),
			fmt.Sprintf(`{"aggregations":[{"fn":"ratio","numerator":{"fn":"count"},"denominator":{"fn":"count","column":%q}}]}`, column),
			fmt.Sprintf(`{"columns":[%q],"distinct":true}`, column))
	}
	for _, fn := range policy.Aggregations() {
		for _, column := range []string{"event_id", "page", "n"} {
			params := ""
			if strings.HasPrefix(fn, "quantile") {
				params = `,"params":[1]`
			}
			if strings.HasPrefix(fn, "arg_") {
				params = `,"by":"n"`
			}
			attempts = append(attempts, fmt.Sprintf(`{"aggregations":[{"fn":%q,"column":%q,"alias":"org"%s}]}`, fn, column, params))
		}
	}
	return attempts
}

func TestNoClauseWidensTheRowFilter(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE pages (event_id String, page String, org String DEFAULT '', secret String DEFAULT '',"+
		" n Int64 DEFAULT 0, ts DateTime64(3,'UTC') DEFAULT now64(3)) ENGINE = MergeTree ORDER BY event_id")
	e.Exec(t, "INSERT INTO pages VALUES ('birch1','/home','birch','hush',1,'2026-01-01 00:00:01'), ('birch2','/docs','birch','hush',2,'2026-01-01 00:00:02'),"+
		" ('zcedar1','/home','cedar','hush',1000001,'2026-01-01 00:00:03'), ('acedar2','/cedar','cedar','hush',-1000002,'2027-01-01 00:00:04'), ('zcedar3','/home','','hush',1000003,'2026-01-01 00:00:05')")
	table := e.describe(t, "pages")
	alone := e.describe(t, "pages")
	e.Exec(t, "CREATE TABLE alone AS pages", "INSERT INTO alone SELECT * FROM pages WHERE org = 'birch'")
	alone.Name = "alone"
	answered := 0
	for _, body := range escapes() {
		s, err := buildBound(t, table, birch(t, table), body)
		if err != nil {
			asError(t, err)
			continue
		}
		assert.Contains(t, s.SQL, " WHERE ((wh", "the rule stands first: %s", s.SQL)
		got, err := e.run(t, s)
		if err != nil {
			continue
		}
		answered++
		assert.NotContains(t, got, "cedar", body)
		assert.NotContains(t, got, "hush", body)
		// The answer is that of a table without the hidden rows.
		s, err = buildBound(t, alone, birch(t, alone), body)
		require.NoError(t, err)
		want, err := e.run(t, s)
		require.NoError(t, err)
		assert.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(got, "\n"), body)
	}
	assert.Greater(t, answered, 30)
}

func TestAnAliasNeverSwallowsTheRowFilter(t *testing.T) {
	e := startEngine(t)
	table := e.pages(t, 20)
	for _, alias := range []string{"k WHERE 1=0 AND q", "Sum order by area", "x LIMIT 1", "a`b", "org", "wh", "wh.org", "pages.org", "pages", "`wh`.`org`", "p0", "{p0:String}", "'cedar'"} {
		body, err := json.Marshal(map[string]any{
			"aggregations": []any{map[string]any{"fn": "count", "column": "*", "alias": alias}},
			"filters":      []any{map[string]any{"column": "page", "op": "eq", "value": "/home"}},
		})
		require.NoError(t, err)
		s, err := buildBound(t, table, birch(t, table), string(body))
		require.NoError(t, err)
		text, err := e.run(t, s)
		require.NoError(t, err, s.SQL)
		var rows []map[string]int
		require.NoError(t, json.Unmarshal([]byte(text), &rows))
		assert.Equal(t, []map[string]int{{alias: 5}}, rows, s.SQL)
	}
}

// ClickHouse makes lists of chains of equalities; what a NULL and a zero are
// must not change by that.
func TestChainsOfEqualities(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE chains (id UInt8, s Nullable(String), lc LowCardinality(Nullable(String)), f Float64, g Nullable(Float64)) ENGINE = MergeTree ORDER BY id",
		"INSERT INTO chains VALUES (1, NULL, NULL, 0, NULL), (2, 'a', 'a', -0.0, 0), (3, 'x', 'x', nan, nan), (4, 'y', 'y', 9, 9)")
	table := e.describe(t, "chains")
	chain := func(word, column, op string, values ...string) string {
		var parts []string
		for _, v := range values {
			parts = append(parts, `{"`+column+`":{"`+op+`":`+v+`}}`)
		}
		return `{"` + word + `":[` + strings.Join(parts, ",") + `]}`
	}
	texts, floats := []string{`"a"`, `"b"`, `"c"`, `"d"`}, []string{"-0.0", "1", "2", "3"}
	for _, c := range []struct {
		rule string
		want []string
	}{
		{chain("_or", "s", "_eq", texts...), []string{"2"}}, {chain("_and", "s", "_neq", texts...), []string{"3", "4"}},
		{`{"_not":` + chain("_or", "s", "_eq", texts...) + `}`, []string{"3", "4"}}, {`{"_not":` + chain("_and", "s", "_neq", texts...) + `}`, []string{"2"}},
		{`{"_not":` + chain("_or", "lc", "_eq", texts...) + `}`, []string{"3", "4"}}, {`{"_not":{"_not":` + chain("_and", "lc", "_neq", texts...) + `}}`, []string{"3", "4"}},
		{chain("_or", "f", "_eq", floats...), []string{"1", "2"}}, {`{"_not":` + chain("_or", "f", "_eq", floats...) + `}`, []string{"4"}},
		{chain("_and", "g", "_neq", floats...), []string{"4"}}, {`{"_not":` + chain("_and", "g", "_neq", floats...) + `}`, []string{"2"}},
		{`{"f":{"_in":[-0.0,1,2,3]}}`, []string{"1", "2"}}, {`{"f":{"_nin":[-0.0,1,2,3]}}`, []string{"4"}}, {`{"_not":{"g":{"_in":[0,1,2,3]}}}`, []string{"4"}},
		{`{"s":{"_nin":["a","b","c"]}}`, []string{"3", "4"}}, {`{"_not":{"lc":{"_in":["a","b","c"]}}}`, []string{"3", "4"}},
	} {
		bound := grantOf(t, policy.SelectDocument{Filter: json.RawMessage(c.rule)}).Bind(nil, table.Record)
		s, err := buildBound(t, table, bound, `{"columns":["id"],"order_by":[{"column":"id"}]}`)
		require.NoError(t, err)
		text, err := e.run(t, s)
		require.NoError(t, err, s.SQL)
		var rows []struct {
			ID json.Number `json:"id"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &rows))
		got := []string{}
		for _, row := range rows {
			got = append(got, row.ID.String())
		}
		assert.Equal(t, c.want, got, "%s\n%s", c.rule, s.SQL)
	}
}

// Columns may be named like anything that stands in a statement.
func TestColumnsNamedLikePartsOfTheStatement(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE wh (wh String, `wh.org` String, `wh_in0` String, v String, `a.org` String, org String) ENGINE = MergeTree ORDER BY wh",
		"INSERT INTO wh VALUES ('birch','cedar','cedar','cedar','cedar','1'), ('cedar','birch','birch','birch','birch','2')")
	table := e.describe(t, "wh")
	for _, column := range []string{"wh", "wh.org", "wh_in0", "v", "a.org"} {
		for _, rule := range []string{`{"_eq":"birch"}`, `{"_in":["birch","oak"]}`, `{"_like":"b_rch"}`} {
			grant := grantOf(t, policy.SelectDocument{Filter: json.RawMessage(`{` + fmt.Sprintf("%q", column) + `:` + rule + `}`)})
			want := `2`
			if column == "wh" {
				want = `1`
			}
			s, err := buildBound(t, table, grant.Bind(nil, table.Record), `{"columns":["org"],"filters":[{"column":"org","op":"in","value":["1","2"]}]}`)
			require.NoError(t, err)
			got, err := e.run(t, s)
			require.NoError(t, err, s.SQL)
			assert.Contains(t, got, `{"org":"`+want+`"}`, s.SQL)
			assert.Equal(t, 1, strings.Count(got, "org"), got)
		}
	}
}
