package rehearsal_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/rehearsal"
	"github.com/wavehouse/wavehouse/internal/settings"
)

const policies = `{"default_role": "public", "tables": {
	"events": {
		"public": {"select": {"allow_columns": ["event_id"], "max_rows": 5}},
		"viewer": {"select": {"deny_columns": ["ip"], "denied_aggregations": ["quantile"], "max_rows": 1000,
			"max_execution_time": "5s", "filter": {"org": {"_eq": "{{ jwt.org }}"}}}},
		"writer": {"insert": {"check": {"org": {"_eq": "{{ jwt.org }}"}}}},
		"blind": {"select": {"allow_columns": ["gone"]}},
		"typo": {"select": {"filter": {"gone": {"_eq": 1}}}, "insert": {"check": {"gone": {"_eq": 1}}}}},
	"*": {"viewer": {"select": {"filter": {"n": {"_gt": 5}}}}}}}`

func snapshotOf(t *testing.T, policies string) *settings.Snapshot {
	t.Helper()
	return snapshotWith(t, `{}`, policies)
}

func snapshotWith(t *testing.T, config, policies string) *settings.Snapshot {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json": config, "pipes.json": `{}`, "policies.json": policies,
		"roles.json": `{"roles": ["public", "viewer", "writer", "blind", "typo"]}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	report := settings.Validate(dir)
	require.True(t, report.OK(), report.Findings)
	return report.Tenants["0"]
}

func eventsColumns() []rehearsal.Column {
	return []rehearsal.Column{
		{Name: "event_id", Type: "String"}, {Name: "org", Type: "String"}, {Name: "ip", Type: "Nullable(IPv4)"},
		{Name: "score", Type: "Nullable(Int64)"},
		{Name: "day", Type: "Date", DefaultKind: "MATERIALIZED", DefaultExpression: "today()"},
		{Name: "raw", Type: "String", DefaultKind: "EPHEMERAL"},
	}
}

func explain(t *testing.T, table, role string, claims map[string]any) rehearsal.Explanation {
	t.Helper()
	return rehearsal.Explain(snapshotOf(t, policies), rehearsal.Caller{Role: role, Claims: claims}, rehearsal.TableOf(table, eventsColumns()))
}

func TestExplainSelect(t *testing.T) {
	e := explain(t, "events", "viewer", map[string]any{"org": "o'birch"})
	assert.True(t, e.Select.Allowed)
	assert.Equal(t, []string{"event_id", "org", "score", "day"}, e.Select.Columns)
	assert.Equal(t, []string{"ip"}, e.Select.Hidden)
	assert.Equal(t, 1000, e.Select.MaxRows)
	assert.NotContains(t, e.Select.Aggregations, "median")
	assert.Contains(t, e.Select.Aggregations, "count")
	assert.Equal(t, map[string]string{"max_execution_time": "5"}, e.Select.Settings)
	assert.Equal(t, rehearsal.RowsSome, e.Select.Rows.Show)
	assert.Contains(t, e.Select.Rows.SQL, "`org` = {")
	assert.NotContains(t, e.Select.Rows.SQL, "birch", "values are bound")
	assert.Contains(t, e.Select.Rows.Parameters, "p0")
	assert.Equal(t, "o'birch", e.Select.Rows.Parameters["p0"])
	assert.False(t, e.Insert.Allowed)
	assert.NotEmpty(t, e.Insert.Reason)
}

func TestExplainLists(t *testing.T) {
	s := snapshotOf(t, `{"tables": {"events": {"viewer": {"select": {"filter": {
		"event_id": {"_in": ["a", "{{ jwt.ids }}"]}, "f": {"_in": [1, 2]}, "score": {"_nin": [3, 4]}}}}}}`+"}")
	table := rehearsal.TableOf("events", append(eventsColumns(), rehearsal.Column{Name: "f", Type: "Float64"}))
	e := rehearsal.Explain(s, rehearsal.Caller{Role: "viewer", Claims: map[string]any{"ids": []any{"b", "c"}}}, table)
	require.Equal(t, rehearsal.RowsSome, e.Select.Rows.Show, e.Select.Rows)
	text, err := json.Marshal(e.Select.Rows)
	require.NoError(t, err)
	for _, value := range []string{"a", "b", "c", "1", "2", "3", "4"} {
		assert.Contains(t, string(text), value)
	}
	for name, values := range e.Select.Rows.Lists {
		assert.Contains(t, e.Select.Rows.SQL, name)
		if strings.HasPrefix(string(values[0]), `"`) {
			assert.Equal(t, []json.RawMessage{json.RawMessage(`"a"`), json.RawMessage(`"b"`), json.RawMessage(`"c"`)}, values)
		} else {
			assert.Equal(t, []json.RawMessage{json.RawMessage("3"), json.RawMessage("4")}, values)
		}
	}
}

func TestExplainWhoSeesNothing(t *testing.T) {
	for _, claims := range []map[string]any{nil, {"org": ""}, {"org": []any{"birch"}}, {"org": nil}} {
		e := explain(t, "events", "viewer", claims)
		assert.True(t, e.Select.Allowed)
		assert.Equal(t, rehearsal.Rows{Show: rehearsal.RowsNone, Claim: "org"}, e.Select.Rows, "%v", claims)
	}
	e := explain(t, "events", "typo", nil)
	assert.Equal(t, rehearsal.RowsNone, e.Select.Rows.Show)
	assert.Contains(t, e.Select.Rows.Fault, `no column "gone"`)
	assert.False(t, e.Insert.Allowed)
	assert.Contains(t, e.Insert.Fault, `no column "gone"`)
	assert.NotEmpty(t, e.Insert.Refuses)

	e = explain(t, "events", "blind", nil)
	assert.False(t, e.Select.Allowed)
	assert.Equal(t, "the role may read no column of this table", e.Select.Reason)
	e = explain(t, "events", "nobody", nil)
	assert.False(t, e.Select.Allowed)
	assert.Equal(t, rehearsal.RowsNone, e.Select.Rows.Show)
	assert.Empty(t, e.Select.Columns)
}

func TestExplainRoles(t *testing.T) {
	e := explain(t, "events", "", nil)
	assert.Equal(t, "public", e.Role)
	assert.True(t, e.Default)
	assert.Equal(t, rehearsal.Rows{Show: rehearsal.RowsAll}, e.Select.Rows)
	assert.Equal(t, 5, e.Select.MaxRows)

	e = explain(t, "events", "admin", nil)
	assert.True(t, e.Admin)
	assert.False(t, e.Default)
	assert.Equal(t, rehearsal.RowsAll, e.Select.Rows.Show)
	assert.Equal(t, 10000, e.Select.MaxRows, "the tenant's limit holds for the admin role, too")
	assert.True(t, e.Insert.Allowed)
	assert.Equal(t, []string{"event_id", "org", "ip", "score", "raw"}, e.Insert.Columns)

	none := rehearsal.Explain(snapshotOf(t, `{}`), rehearsal.Caller{Role: "admin"}, rehearsal.TableOf("events", eventsColumns()))
	assert.False(t, none.Select.Allowed)
	assert.False(t, none.Admin)
}

func TestExplainInsert(t *testing.T) {
	e := explain(t, "events", "writer", map[string]any{"org": "birch"})
	assert.True(t, e.Insert.Allowed)
	assert.Equal(t, []rehearsal.Check{{Column: "org", Allowed: []json.RawMessage{json.RawMessage(`"birch"`)}, Stamps: true}}, e.Insert.Checks)
	e = explain(t, "events", "writer", nil)
	assert.False(t, e.Insert.Allowed)
	assert.Contains(t, e.Insert.Refuses, `"org"`)
	assert.Empty(t, e.Insert.Fault)
}

func TestAssumedColumns(t *testing.T) {
	s := snapshotOf(t, `{"tables": {"t": {
		"viewer": {"select": {"allow_columns": ["plain", "*"], "filter": {
			"text": {"_eq": "x"}, "n": {"_gt": 5}, "big": {"_lt": 99999999999999999999}, "f": {"_gte": 0.5}, "flag": {"_eq": true},
			"like": {"_like": "a%"}, "opt": {"_is_null": true, "_eq": 3}, "ids": {"_in": [1, 2.5]}, "mixed": {"_in": [1, "a"]},
			"who": {"_eq": "{{ jwt.app.id }}"}, "many": {"_in": "{{ jwt.list }}"}, "said": {"_eq": "a-{{ jwt.app.id }}"}, "odd": {"_eq": "{{ jwt.none }}"},
			"_or": [{"inor": {"_eq": 1}}, {"_not": {"innot": {"_neq": "x"}}}]}}},
		"writer": {"insert": {"deny_columns": ["denied"], "check": {"checked": {"_in": ["a"]}}}}}}}`)
	claims := map[string]any{"app": map[string]any{"id": json.Number("7")}, "list": []any{json.Number("1"), json.Number("2")}}
	types := map[string]string{}
	for _, c := range rehearsal.AssumeTable(s.PolicyDocument(), "t", claims) {
		types[c.Name] = c.Type
	}
	assert.Equal(t, map[string]string{
		"plain": "String", "text": "String", "n": "Int64", "big": "Int256", "f": "Float64", "flag": "Bool", "like": "String",
		"opt": "Nullable(Int64)", "ids": "Float64", "mixed": "String", "who": "Int64", "many": "Int64", "said": "String",
		"odd": "String", "inor": "Int64", "innot": "String", "denied": "String", "checked": "String",
	}, types)
	all := rehearsal.AssumeTable(snapshotOf(t, policies).PolicyDocument(), "another", nil)
	assert.Equal(t, []rehearsal.Column{{Name: "n", Type: "Int64"}}, all, `the rules of "*"`)
}

func TestParseColumn(t *testing.T) {
	c, err := rehearsal.ParseColumn(" `score` Nullable(Decimal(10, 2)) ")
	require.NoError(t, err)
	assert.Equal(t, rehearsal.Column{Name: "score", Type: "Nullable(Decimal(10, 2))"}, c)
	for _, text := range []string{"", "score", "score ", "score Int65", "score Array("} {
		_, err := rehearsal.ParseColumn(text)
		assert.Error(t, err, text)
	}
}

func load(t *testing.T, text string) (*rehearsal.Suite, []settings.Finding) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.test.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	suite, findings, err := rehearsal.Load(path)
	require.NoError(t, err)
	return suite, findings
}

// suite is a file of one test.
func suite(test string) string {
	columns, err := json.Marshal(eventsColumns())
	if err != nil {
		panic(err)
	}
	return `{"$comment": "x", "tables": {"events": {"columns": ` + string(columns) + "}}, \"tests\": [\n" + test + "]}"
}

func TestTheExampleOfTheManualPasses(t *testing.T) {
	manual, err := os.ReadFile("../../docs/policies.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(manual), "A file looks like\nthis:\n\n```json\n")
	require.True(t, found)
	example, _, _ := strings.Cut(after, "```")
	s, findings := load(t, example)
	require.Empty(t, findings)
	outcomes := s.Run(snapshotOf(t, policies))
	require.Len(t, outcomes, 2)
	for _, o := range outcomes {
		assert.True(t, o.OK, "%s: %v", o.Name, o.Failures)
	}
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		test     string
		failures []string // none: it passes
	}{
		"visible and hidden": {`{"role": "viewer", "claims": {"org": "birch"}, "select": {"allowed": true,
			"columns": ["org", "event_id", "score", "day"], "hidden_columns": ["ip"], "max_rows": 1000, "aggregations": {"median": false, "sum": true},
			"rows": [{"row": {"org": "birch"}, "visible": true}, {"row": {"org": "cedar"}, "visible": false}, {"row": {"event_id": "1"}, "visible": false}]}}`, nil},
		"all of it wrong": {`{"role": "viewer", "claims": {"org": "birch"}, "select": {"allowed": false,
			"columns": ["org", "ip"], "hidden_columns": [], "max_rows": 7, "aggregations": {"median": true, "summ": true},
			"rows": [{"row": {"org": "birch"}, "visible": false}, {"row": {"org": "cedar"}, "visible": true}]}}`, []string{
			`select.allowed: want a denial, but it is allowed`,
			`select.columns: "ip" is not among them`, `select.columns: "event_id" is among them`, `select.columns: "score" is among them`, `select.columns: "day" is among them`,
			`select.hidden_columns: "ip" is among them`, `select.max_rows: want 7, not 1000`,
			`select.aggregations.median: want true, not false`, `select.aggregations.summ: there is no such aggregation`,
			`select.rows[0]: want it hidden, but it is visible`, `select.rows[1]: want it visible, but it is hidden`,
		}},
		"without the claim": {`{"role": "viewer", "select": {"rows": [{"row": {"org": "birch"}, "visible": false}]}}`, nil},
		"numbers in claims": {`{"role": "viewer", "claims": {"org": 9007199254740993}, "select": {"rows": [
			{"row": {"org": "9007199254740993"}, "visible": true}, {"row": {"org": "9007199254740992"}, "visible": false}]}}`, nil},
		"no token":          {`{"select": {"columns": ["event_id"], "rows": [{"row": {"org": "any"}, "visible": true}]}}`, nil},
		"denied":            {`{"role": "writer", "select": {"allowed": false, "rows": [{"row": {"org": "x"}, "visible": false}]}}`, nil},
		"denied after all":  {`{"role": "writer", "select": {"allowed": true}}`, []string{`select.allowed: it is denied: the role has no such grant on this table`}},
		"a misspelled role": {`{"role": "veiwer", "select": {"allowed": false}}`, []string{`role: "veiwer" is not in roles.json`}},
		"the admin role":    {`{"role": "admin", "select": {"hidden_columns": []}, "insert": {"allowed": true}}`, nil},
		"not a row": {`{"role": "viewer", "claims": {"org": "x"}, "select": {"rows": [{"row": {"score": "many"}, "visible": false},
			{"row": {"nope": 1}, "visible": false}, {"row": {"day": "2026-01-01"}, "visible": false}, {"row": {}, "visible": false}]}}`, []string{
			"select.rows[0]: the row is not one of the table", "select.rows[1]: the row is not one of the table",
			"select.rows[2]: the row is not one of the table", "select.rows[3]: ",
		}},
		"a filter that does not fit": {`{"role": "typo", "select": {"rows": [{"row": {"org": "x"}, "visible": false}]}, "insert": {"allowed": true}}`,
			[]string{`select.rows: the row filter does not fit the table`, `insert.allowed: it is denied: `}},
		"inserts": {`{"role": "writer", "claims": {"org": "birch"}, "insert": {"allowed": true, "columns": ["event_id", "org", "ip", "score", "raw"], "records": [
			{"record": {"event_id": "1", "raw": ""}, "accepted": true, "stored": {"org": "birch", "event_id": "1"}},
			{"record": {"event_id": "1", "org": "cedar"}, "accepted": false, "code": "record.check_failed"},
			{"record": {"event_id": "1", "raw": "", "day": "2026-01-01"}, "accepted": false, "code": "record.column_computed"}]}}`, nil},
		"inserts, all of it wrong": {`{"role": "writer", "claims": {"org": "birch"}, "insert": {"allowed": false, "columns": [], "records": [
			{"record": {"event_id": "1", "raw": ""}, "accepted": true, "stored": {"org": "cedar", "score": 1}},
			{"record": {"event_id": "1", "raw": ""}, "accepted": false},
			{"record": {"event_id": "1", "org": "cedar"}, "accepted": true},
			{"record": {"event_id": "1", "org": "cedar"}, "accepted": false, "code": "record.malformed"}]}}`, []string{
			`insert.allowed: want a denial`, `insert.columns: "event_id" is among them`, `insert.columns: "org" is among them`,
			`insert.columns: "ip" is among them`, `insert.columns: "score" is among them`, `insert.columns: "raw" is among them`,
			`insert.records[0].stored.org: want cedar, not birch`, `insert.records[0].stored.score: the record does not carry it`,
			`insert.records[1]: want it refused, but it is accepted`, `insert.records[2]: want it accepted, but it is refused: `,
			`insert.records[3]: want record.malformed, but it is record.check_failed: `,
		}},
		"inserts of nobody": {`{"role": "viewer", "insert": {"allowed": false, "records": [{"record": {"event_id": "1"}, "accepted": false, "code": "auth.forbidden"}]}}`, nil},
		"inserts without the claim": {`{"role": "writer", "insert": {"allowed": false, "records": [
			{"record": {"event_id": "1"}, "accepted": false, "code": "record.check_failed"}]}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, findings := load(t, suite(`{"name": "n", "table": "events", `+c.test[1:]))
			require.Empty(t, findings)
			outcomes := s.Run(snapshotOf(t, policies))
			require.Len(t, outcomes, 1)
			o := outcomes[0]
			assert.Equal(t, []any{"a.test.json", 2, "n", len(c.failures) == 0}, []any{o.File, o.Line, o.Name, o.OK})
			require.Len(t, o.Failures, len(c.failures), "%q", o.Failures)
			for i, want := range c.failures {
				assert.True(t, strings.HasPrefix(o.Failures[i], want), "%q begins with %q", o.Failures[i], want)
			}
		})
	}
}

// A record with a field that the table has no column for is what the gate would make
// of it, by the rules of ingest.
func TestRunTakesUnknownFieldsAsTheGateDoes(t *testing.T) {
	for rules, expected := range map[string]string{
		`{}`:                         `"accepted": false, "code": "record.unknown_column"`,
		`{"unknown_fields": "drop"}`: `"accepted": true, "stored": {"id": "1"}`,
		`{"unknown_fields": "collect", "collect_into": "rest"}`: `"accepted": true, "stored": {"rest": {"colour": "red"}}`,
	} {
		suite, findings := load(t, `{
			"tables": {"events": {"columns": [{"name": "id", "type": "String"}, {"name": "rest", "type": "Map(String, String)", "default_kind": "DEFAULT", "default_expression": "map()"}]}},
			"tests": [{"name": "n", "role": "writer", "table": "events", "insert": {"records": [{"record": {"id": "1", "colour": "red"}, `+expected+`}]}}]}`)
		require.Empty(t, findings)
		snapshot := snapshotWith(t, `{"ingest": {"tables": {"events": `+rules+`}}}`, `{"tables": {"events": {"writer": {"insert": {}}}}}`)
		for _, outcome := range suite.Run(snapshot) {
			assert.True(t, outcome.OK, "%s: %v", rules, outcome.Failures)
		}
	}
}

func TestFaultsOfAFile(t *testing.T) {
	for text, want := range map[string]string{
		`{`:            `a.test.json:1: error: `,
		`{}`:           `a.test.json:1: error: tests: there are no tests`,
		`{"test": []}`: `a.test.json:1: error: test: unknown key; did you mean "tests"?`,
		suite(`{"table": "events", "select": {"allowed": true}}`):                                                                          `a.test.json:2: error: tests[0].name: a test must have a name`,
		suite(`{"name": "n", "table": "event", "select": {"allowed": true}}`):                                                              `a.test.json:2: error: tests[0].table: the table "event" is not among the file's tables`,
		suite(`{"name": "n", "table": "events"}`):                                                                                          `a.test.json:2: error: tests[0]: the test expects nothing`,
		suite(`{"name": "n", "table": "events", "select": {}}`):                                                                            `a.test.json:2: error: tests[0].select: nothing is expected here`,
		suite(`{"name": "n", "table": "events", "insert": {"records": []}}`):                                                               `a.test.json:2: error: tests[0].insert: nothing is expected here`,
		suite(`{"name": "n", "table": "events", "select": {"rows": [{"row": {}}]}}`):                                                       `a.test.json:2: error: tests[0].select.rows[0]: want {"row"`,
		suite(`{"name": "n", "table": "events", "select": {"rows": [{"visible": true}]}}`):                                                 `a.test.json:2: error: tests[0].select.rows[0]: want {"row"`,
		suite(`{"name": "n", "table": "events", "insert": {"records": [{"accepted": true}]}}`):                                             `a.test.json:2: error: tests[0].insert.records[0]: want {"record"`,
		suite(`{"name": "n", "table": "events", "insert": {"records": [{"record": {}, "accepted": true, "code": "x"}]}}`):                  `a.test.json:2: error: tests[0].insert.records[0]: a record that is accepted has no code`,
		suite(`{"name": "n", "table": "events", "insert": {"records": [{"record": {}, "accepted": false, "stored": {}}]}}`):                `a.test.json:2: error: tests[0].insert.records[0]: a record that is refused is not stored`,
		`{"tables": {"t": {}}, "tests": [{"name": "n", "table": "t", "select": {"allowed": true}}]}`:                                       `a.test.json:1: error: tables.t.columns: a table has columns`,
		`{"tables": {"t": {"columns": [{"name": "a", "type": "Int"}, {"name": "a", "type": "Int8"}]}}, "tests": []}`:                       `a.test.json:1: error: tables.t.columns: `,
		`{"tables": {"t": {"columns": [{"name": "a", "type": "Nope("}]}}, "tests": [{"name":"n","table":"t","insert":{"allowed":false}}]}`: `a.test.json:1: error: tables.t.columns: column "a": `,
	} {
		s, findings := load(t, text)
		assert.Nil(t, s)
		require.NotEmpty(t, findings, text)
		assert.True(t, strings.HasPrefix(findings[0].String(), want), "%q begins with %q", findings[0].String(), want)
	}
	_, _, err := rehearsal.Load(filepath.Join(t.TempDir(), "none.test.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(t.TempDir(), "huge.test.json")
	require.NoError(t, os.WriteFile(path, make([]byte, 5<<20), 0o600))
	_, _, err = rehearsal.Load(path)
	require.ErrorContains(t, err, "larger than")
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.test.json", "a.test.json", ".hidden.test.json", "config.json", "test.json", "a.test.json~"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.test.json"), 0o750))
	files, err := rehearsal.Files(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, "a.test.json"), filepath.Join(dir, "b.test.json")}, files)
	_, err = rehearsal.Files(filepath.Join(dir, "none"))
	require.Error(t, err)
}
