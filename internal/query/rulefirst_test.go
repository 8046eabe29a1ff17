package query_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
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
					outputs = append(outputs, `"columns":["num","id"],"order_by":[{"column":"num","dir":"desc"},{"column":"share"}],"limit":2`)
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

// What cannot fail is left to ClickHouse to put in order.
func TestTheRuleStandsAloneOnlyWhereItMatters(t *testing.T) {
	table := tableOf("pages", nil, "event_id", "String", "org", "String", "secret", "String", "n", "Int64")
	table.Columns[3].DefaultKind = record.DefaultAlias
	table.Record = record.Compile(table.Name, table.Columns, time.UTC)
	const keeps = "allow_reorder_prewhere_conditions"
	for _, c := range []struct {
		engine, filters string
		alone, keeps    bool
	}{
		{"ReplicatedMergeTree", `[{"column":"event_id","op":"eq","value":"1"}]`, false, false},
		{"MergeTree", `[{"column":"event_id","op":"eq","value":"1"},{"column":"n","op":"eq","value":1}]`, true, false},
		{"MergeTree", `[]`, false, false},
		{"View", `[{"column":"event_id","op":"eq","value":"1"}]`, false, true},
		{"View", `[]`, false, false},
	} {
		table.Engine = c.engine
		s, err := buildBound(t, table, birch(t, table), `{"columns":["n"],"filters":`+c.filters+`}`)
		require.NoError(t, err)
		assert.Equal(t, c.alone, strings.Contains(s.SQL, " PREWHERE ((wh.`org` = {p0:String})) WHERE "), s.SQL)
		assert.Equal(t, c.keeps, s.Settings[keeps] == "0", s.SQL)
		s, err = build(table, policy.OperatorSelect(), `{"columns":["n"],"filters":`+c.filters+`}`)
		require.NoError(t, err)
		assert.NotContains(t, s.SQL, "PREWHERE", "there is no rule")
		assert.NotContains(t, s.Settings, keeps)
	}
}
