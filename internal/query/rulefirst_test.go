package query_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/record"
)

// A condition of the caller's that fails on the values of hidden rows is never
// asked of them: its failure would say that they are there, and quote them.
func TestTheRowRuleIsJudgedBeforeWhatMayFail(t *testing.T) {
	e := startEngine(t)
	// The rule's column is the dearest to read, and one of the hidden values is
	// in every block.
	e.Exec(t, "CREATE TABLE readings (id String, org String, text String, num UInt64 ALIAS toUInt64(text), at DateTime ALIAS toDateTime(text),"+
		" share Int64 ALIAS intDiv(100, n), n Int64) ENGINE = MergeTree ORDER BY id SETTINGS min_bytes_for_wide_part = 0",
		"INSERT INTO readings (id, org, text, n) SELECT if(number % 1000 = 7, 'x', '') || toString(number), if(number % 1000 = 7, 'cedar', 'birch' || repeat('x', number % 300)),"+
			" if(number % 1000 = 7, 'hidden-value', '5'), number % 1000 != 7 FROM numbers(20000)",
		"CREATE VIEW viewed AS SELECT id, org, text, n, toUInt64(text) AS num, toDateTime(text) AS at, intDiv(100, n) AS share FROM readings")
	for _, name := range []string{"readings", "viewed"} {
		table := e.describe(t, name)
		if table.Engine = "MergeTree"; name == "viewed" {
			table.Engine = "View"
		}
		for _, rule := range []string{
			`{"org":{"_neq":"cedar"}}`, `{"org":{"_nin":["cedar"]}}`, `{"_not":{"org":{"_eq":"cedar"}}}`, `{"org":{"_like":"birch%"}}`,
			`{"id":{"_lt":"x"}}`, `{"n":{"_gt":0}}`, `{"text":{"_neq":"hidden-value"}}`, `{"text":{"_in":["5"]}}`, `{"_or":[{"org":{"_like":"birch%"}},{"id":{"_eq":"none"}}]}`,
		} {
			bound := grantOf(t, policy.SelectDocument{Filter: json.RawMessage(rule)}).Bind(nil, table.Record)
			for _, filters := range []string{
				`[{"column":"num","op":"eq","value":5}]`, `[{"column":"num","op":"in","value":[5]}]`, `[{"column":"num","op":"gt","value":1}]`,
				`[{"column":"share","op":"eq","value":100}]`, `[{"column":"at","op":"gt","value":"1970-01-01T00:00:01Z"}]`,
				`[{"column":"id","op":"eq","value":"x7"},{"column":"num","op":"eq","value":5}]`,
				`[],"time_range":{"column":"at","since":"1970-01-01T00:00:02Z"}`,
			} {
				outputs := []string{`"aggregations":[{"fn":"count"}]`, `"select_all":true,"limit":2`}
				if name == "readings" { // of a view ClickHouse may compute first what it puts out as well
					outputs = append(outputs, `"columns":["num","id"],"order_by":[{"column":"num","dir":"desc"},{"column":"share"}],"limit":2`,
						`"columns":["n"],"group_by":["n","num"],"aggregations":[{"fn":"count","where":[{"column":"num","op":"eq","value":5},{"column":"id","op":"like","value":"%1"}]},{"fn":"arg_max","column":"id","by":"share"}],"having":[{"column":"num","op":"eq","value":5},{"column":"count","op":"gt","value":1}]`)
				}
				for _, outputs := range outputs {
					s, err := buildBound(t, table, bound, `{`+outputs+`,"filters":`+filters+`}`)
					require.NoError(t, err)
					text, err := e.run(t, s)
					if assert.NoError(t, err, "%s under %s: %s", name, rule, s.SQL) {
						assert.NotContains(t, text, "hidden")
					}
				}
			}
		}
	}
}

// What is judged behind WHERE is judged behind the rule as well.
func TestTheRuleStandsBeforeConditionsOfAggregationsAndGroups(t *testing.T) {
	table := pages()
	const fails = `[{"or":[{"column":"event_id","op":"like","value":"a%"},{"column":"n","op":"gt","value":1}]}]`
	for body, apart := range map[string]bool{
		`{"aggregations":[{"fn":"count","where":` + fails + `}]}`:                                                                          true,
		`{"aggregations":[{"fn":"ratio","numerator":{"fn":"count","where":` + fails + `},"denominator":{"fn":"count"}}]}`:                  true,
		`{"columns":["event_id"],"group_by":["event_id","n"],"having":` + fails + `}`:                                                      true,
		`{"aggregations":[{"fn":"count","where":[{"column":"n","op":"gt","value":1}]}],"having":[{"column":"count","op":"gt","value":1}]}`: false,
	} {
		s, err := buildBound(t, table, birch(t, table), body)
		require.NoError(t, err)
		assert.Equal(t, apart, strings.Contains(s.SQL, " PREWHERE ((wh.`org` = "), s.SQL)
		assert.Equal(t, !apart, strings.Contains(s.SQL, " WHERE ((wh.`org` = "), s.SQL)
	}
}

// What cannot fail is left to ClickHouse to put in order.
func TestTheRuleStandsAloneOnlyWhereItMatters(t *testing.T) {
	table := tableOf("pages", nil, "event_id", "String", "org", "String", "secret", "String", "n", "Int64", "late", "Int64", "ts", "DateTime64(3)")
	table.Columns[3].DefaultKind = record.DefaultAlias
	table.Columns[4].DefaultKind, table.Columns[4].DefaultExpression = record.DefaultExpression, "toInt64(secret)"
	table.Columns[5].DefaultKind, table.Columns[5].DefaultExpression = record.DefaultExpression, "now64(3)"
	table.Record = record.Compile(table.Name, table.Columns, time.UTC)
	const (
		keeps = "allow_reorder_prewhere_conditions"
		rule  = "((wh.`org` = {p0:String}))"
		id    = `{"column":"event_id","op":"eq","value":"1"}`
	)
	for _, c := range []struct{ engine, columns, filters, want string }{
		{"ReplicatedMergeTree", `"event_id"`, id, " WHERE " + rule + " AND wh.`event_id` = {p1:String}"},
		{"ReplicatedMergeTree", `"ts"`, ``, " WHERE " + rule},
		{"MergeTree", `"event_id"`, id + `,{"column":"n","op":"eq","value":1}`, " PREWHERE " + rule + " AND wh.`event_id` = {p1:String} WHERE wh.`n` = {p2:Int64}"},
		{"MergeTree", `"event_id"`, `{"column":"event_id","op":"like","value":"a%"},` + id, " PREWHERE " + rule + " AND wh.`event_id` = {p2:String} WHERE wh.`event_id` LIKE {p1:String}"},
		{"MergeTree", `"late"`, ``, " PREWHERE " + rule},
		{"MergeTree", `"event_id"`, `{"column":"late","op":"eq","value":1}`, " PREWHERE " + rule + " WHERE wh.`late` = {p1:Int64}"},
		{"View", `"n"`, id, " WHERE " + rule + " AND wh.`event_id` = {p1:String}"},
		{"View", `"n"`, ``, " WHERE " + rule},
	} {
		table.Engine = c.engine
		body := `{"columns":[` + c.columns + `],"filters":[` + c.filters + `]}`
		s, err := buildBound(t, table, birch(t, table), body)
		require.NoError(t, err)
		assert.Contains(t, s.SQL, " AS wh"+c.want+" LIMIT")
		assert.Equal(t, c.engine == "View" && c.filters != "", s.Settings[keeps] == "0", s.SQL)
		s, err = build(table, policy.OperatorSelect(), body)
		require.NoError(t, err)
		assert.NotContains(t, s.SQL, "PREWHERE", "there is no rule")
		assert.NotContains(t, s.Settings, keeps)
	}
}

// ClickHouse refuses such a pattern once it meets a value, so that the refusal
// would tell that there is one.
func TestAPatternThatEndsInABackslashIsRefusedForEveryone(t *testing.T) {
	table := pages()
	for pattern, refused := range map[string]bool{
		`\\`: true, `a\\`: true, `%\\`: true, `a\\\\\\`: true, `a\\\\`: false, `a\\%`: false, `\\x`: false, ``: false, `%`: false,
	} {
		for _, op := range []string{"like", "not_like"} {
			body := `{"columns":["event_id"],"filters":[{"column":"page","op":"` + op + `","value":"` + pattern + `"}]}`
			for _, grant := range []*policy.BoundSelect{birch(t, table), policy.OperatorSelect().Bind(nil, nil)} {
				_, err := buildBound(t, table, grant, body)
				if !refused {
					require.NoError(t, err, pattern)
					continue
				}
				e := asError(t, err)
				assert.Equal(t, query.CodeInvalid, e.Code)
				assert.Contains(t, e.Message, "ends in a \\")
			}
		}
	}
}

// A column that a table got later is computed for the rows that were there
// before, hidden ones too, be it compared, sorted by or only put out.
func TestAColumnThatWasAddedLaterIsNotComputedForHiddenRows(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE grown (id String, org String, text String) ENGINE = MergeTree ORDER BY id SETTINGS min_bytes_for_wide_part = 0",
		"INSERT INTO grown SELECT toString(number), if(number % 1000 = 7, 'cedar', 'birch'), if(number % 1000 = 7, 'hidden-value', '5') FROM numbers(20000)",
		"ALTER TABLE grown ADD COLUMN late UInt64 DEFAULT toUInt64(text), ADD COLUMN made UInt64 MATERIALIZED toUInt64(text)",
		"CREATE VIEW over AS SELECT *, made FROM grown")
	for name, engine := range map[string]string{"grown": "MergeTree", "over": "View"} {
		table := e.describe(t, name)
		table.Engine = engine
		bound := grantOf(t, policy.SelectDocument{Filter: json.RawMessage(`{"org":{"_neq":"cedar"}}`)}).Bind(nil, table.Record)
		for _, body := range []string{
			`{"columns":["late","made","id"],"order_by":[{"column":"late","dir":"desc"}],"limit":2}`, `{"columns":["id"],"order_by":[{"column":"made"}],"limit":2}`,
			`{"aggregations":[{"fn":"sum","column":"late"}]}`, `{"aggregations":[{"fn":"count"}],"filters":[{"column":"late","op":"eq","value":5}]}`,
			`{"aggregations":[{"fn":"count"}],"filters":[{"column":"id","op":"neq","value":"1"},{"column":"made","op":"in","value":[5]}]}`,
		} {
			s, err := buildBound(t, table, bound, body)
			require.NoError(t, err)
			text, err := e.run(t, s)
			if assert.NoError(t, err, "%s: %s", name, s.SQL) {
				assert.NotContains(t, text, "hidden")
			}
		}
	}
}
