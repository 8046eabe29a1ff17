package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
)

// pages is the table of the cases, with some columns more.
func pages() *record.Table {
	return record.Compile("pages", []record.Column{
		{Name: "event_id", Type: "String"},
		{Name: "org", Type: "String", DefaultKind: record.DefaultExpression, DefaultExpression: "''"},
		{Name: "tenant", Type: "UInt64"},
		{Name: "team", Type: "Nullable(String)"},
		{Name: "score", Type: "Float64"},
		{Name: "day", Type: "Date", DefaultKind: record.DefaultExpression, DefaultExpression: "today()"},
		{Name: "tags", Type: "Array(String)"},
		{Name: "made", Type: "String", DefaultKind: record.DefaultMaterialized, DefaultExpression: "upper(org)"},
		{Name: "gone", Type: "String", DefaultKind: record.DefaultEphemeral, DefaultExpression: "''"},
		{Name: "most", Type: "SimpleAggregateFunction(max, UInt8)"},
		{Name: "any", Type: "Dynamic"},
		{Name: "level", Type: "Int8", DefaultKind: record.DefaultExpression, DefaultExpression: "-3"},
		{Name: "lang", Type: "LowCardinality(String)", DefaultKind: record.DefaultExpression, DefaultExpression: "'en'"},
		{Name: "odd", Type: "String", DefaultKind: record.DefaultExpression, DefaultExpression: `'it\'s'`},
		{Name: "on", Type: "Bool", DefaultKind: record.DefaultExpression, DefaultExpression: "true"},
		{Name: "kind", Type: "Enum8('a' = 1)"},
	}, time.UTC)
}

func filterGrant(t testing.TB, filter string) *policy.SelectGrant {
	t.Helper()
	g, err := load(t, `{"tables": {"pages": {"viewer": {"select": {"filter": `+filter+`}}}}}`, "viewer").Select("viewer", "pages")
	require.NoError(t, err)
	return g
}

// claims reads claims as the authenticator does.
func claims(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var c map[string]any
	require.NoError(t, d.Decode(&c))
	return c
}

// encoded turns a record into a row.
func encoded(t testing.TB, table *record.Table, row string) (*record.Layout, []byte) {
	t.Helper()
	d := table.NewDecoder(record.JSON, []byte(row), record.DecodeOptions{MissingAsZero: true})
	require.True(t, d.Next())
	r := d.Record()
	require.Nil(t, r.Err, "%s: %v", row, r.Err)
	layout, err := record.ParseLayout(r.Set.Header(), time.UTC)
	require.NoError(t, err)
	return layout, r.Row
}

// sees says whether a row shows: "yes", "no" or "withheld".
func sees(t testing.TB, b *policy.BoundSelect, table *record.Table, row string) string {
	t.Helper()
	layout, encoded := encoded(t, table, row)
	visible, err := b.Visible(layout, encoded)
	switch {
	case err != nil:
		assert.False(t, visible)
		return "withheld"
	case visible:
		return "yes"
	}
	return "no"
}

func TestVisible(t *testing.T) {
	const token = `{"org": "birch", "id": 9007199254740993, "teams": ["red", "blue"], "team": "red", "yes": true, "https://x.y/org": "birch", "app.org": "forged", "app": {"org": "birch", "n": 1.5}}`
	for _, c := range []struct{ filter, row, want string }{
		{`{"org": {"_eq": "{{ jwt.org }}"}}`, `{"org": "birch"}`, "yes"},
		{`{"org": {"_eq": "{{ jwt.org }}"}}`, `{"org": "cedar"}`, "no"},
		{`{"org": {"_eq": "{{jwt.app.org}}"}}`, `{"org": "birch"}`, "yes"},
		{`{"org": {"_eq": "{{ jwt.\"https://x.y/org\" }}"}}`, `{"org": "birch"}`, "yes"},
		{`{"org": {"_eq": "{{ jwt.app.org }}"}}`, `{"org": "birch"}`, "yes"},
		{`{"org": {"_eq": "{{ jwt.app.org }}"}}`, `{"org": "forged"}`, "no"},
		{`{"org": {"_eq": "{{ jwt.\"app.org\" }}"}}`, `{"org": "forged"}`, "yes"},
		{`{"org": {"_eq": "o-{{ jwt.org }}/{{ jwt.app.n }}-{{ jwt.yes }}"}}`, `{"org": "o-birch/1.5-true"}`, "yes"},
		{`{"org": {"_neq": "{{ jwt.org }}"}}`, `{"org": "birch"}`, "no"},
		{`{"org": {"_neq": "birch", "_gt": "a"}}`, `{"org": "cedar"}`, "yes"},
		{`{"org": {"_neq": "birch"}, "tenant": {"_gte": 5}}`, `{"org": "cedar", "tenant": 4}`, "no"},
		{`{"tenant": {"_lt": "{{ jwt.app.n }}"}}`, `{"tenant": 1}`, "no"}, // 1.5 is no UInt64
		{`{"score": {"_lt": "{{ jwt.app.n }}"}}`, `{"score": 1}`, "yes"},
		{`{"tenant": {"_lte": 5}}`, `{"tenant": 5}`, "yes"},
		{`{"team": {"_in": "{{ jwt.teams }}"}}`, `{"team": "blue"}`, "yes"},
		{`{"team": {"_in": "{{ jwt.teams }}"}}`, `{"team": "green"}`, "no"},
		{`{"team": {"_in": "{{ jwt.team }}"}}`, `{"team": "red"}`, "yes"},
		{`{"team": {"_in": ["green", "{{ jwt.team }}"]}}`, `{"team": "red"}`, "yes"},
		{`{"team": {"_nin": "{{ jwt.teams }}"}}`, `{"team": "green"}`, "yes"},
		{`{"team": {"_nin": "{{ jwt.teams }}"}}`, `{"team": "red"}`, "no"},
		{`{"team": {"_nin": "{{ jwt.teams }}"}}`, `{"team": null}`, "no"},
		{`{"_not": {"team": {"_eq": "red"}}}`, `{"team": null}`, "no"},
		{`{"_or": [{"team": {"_eq": "red"}}, {"team": {"_is_null": true}}]}`, `{"team": null}`, "yes"},
		{`{"team": {"_is_null": false}}`, `{"team": null}`, "no"},
		{`{"_and": [{"team": {"_like": "r%"}}, {"_not": {"org": {"_like": "%\\_%"}}}]}`, `{"team": "red", "org": "a_b"}`, "no"},
		{`{"_and": [{"team": {"_like": "r%"}}, {"_not": {"org": {"_like": "%\\_%"}}}]}`, `{"team": "red", "org": "ab"}`, "yes"},
		{`{"score": {"_neq": 1}}`, `{"score": "NaN"}`, "no"},
		{`{"_not": {"score": {"_eq": 1}}}`, `{"score": "NaN"}`, "no"},
		{`{"score": {"_in": [1, 0]}}`, `{"score": -0.0}`, "yes"},
		{`{"score": {"_nin": [1, 0]}}`, `{"score": "NaN"}`, "no"},
		// Columns that the row lacks.
		{`{"org": {"_eq": "birch"}}`, `{"event_id": "1"}`, "no"},
		{`{"org": {"_neq": "birch"}}`, `{"event_id": "1"}`, "yes"},
		{`{"team": {"_is_null": true}}`, `{"event_id": "1"}`, "yes"},
		{`{"tenant": {"_eq": 0}}`, `{"event_id": "1"}`, "yes"},
		{`{"level": {"_eq": -3}}`, `{"event_id": "1"}`, "yes"},
		{`{"lang": {"_eq": "en"}}`, `{"event_id": "1"}`, "yes"},
		{`{"on": {"_eq": true}}`, `{"event_id": "1"}`, "yes"},
		{`{"odd": {"_neq": "x"}}`, `{"event_id": "1"}`, "withheld"},
		{`{"day": {"_gt": "1970-01-02"}}`, `{"event_id": "1"}`, "withheld"},
		{`{"kind": {"_eq": "a"}}`, `{"event_id": "1"}`, "withheld"},
		{`{"made": {"_eq": "BIRCH"}}`, `{"org": "birch"}`, "withheld"},
		{`{"most": {"_lt": 5}}`, `{"most": 1}`, "withheld"},
		{`{"most": {"_is_null": true}}`, `{"event_id": "1"}`, "withheld"},
		{`{"any": {"_is_null": true}}`, `{"event_id": "1"}`, "withheld"},
		{`{"tags": {"_is_null": false}}`, `{"tags": []}`, "yes"},
		// What is not needed is not asked.
		{`{"made": {"_eq": "BIRCH"}, "org": {"_eq": "cedar"}}`, `{"org": "birch"}`, "no"},
		{`{"_or": [{"made": {"_eq": "BIRCH"}}, {"org": {"_eq": "birch"}}]}`, `{"org": "birch"}`, "yes"},
		{`{"_not": {"made": {"_eq": "BIRCH"}}}`, `{"org": "birch"}`, "withheld"},
		{`{"made": {"_eq": "x"}, "team": {"_eq": "red"}}`, `{"team": null}`, "withheld"},
		{`{"_not": {"_and": [{"made": {"_eq": "x"}}, {"team": {"_eq": "red"}}]}}`, `{"team": null}`, "withheld"},
	} {
		table := pages()
		b := filterGrant(t, c.filter).Bind(claims(t, token), table)
		require.NoError(t, b.Fault(), c.filter)
		assert.Equal(t, c.want, sees(t, b, table, c.row), "%s of %s", c.filter, c.row)
	}
}

// A claim that says nothing shows no row, whatever is made of it.
func TestAClaimThatSaysNothing(t *testing.T) {
	table := pages()
	conditions := []string{
		`{"org": {"%s": "{{ jwt.x }}"}}`, `{"_not": {"org": {"%s": "{{ jwt.x }}"}}}`, `{"_or": [{"org": {"_neq": "no"}}, {"org": {"%s": "{{ jwt.x }}"}}]}`,
		`{"_not": {"_and": [{"org": {"_eq": "no"}}, {"_not": {"org": {"%s": "{{ jwt.x }}"}}}]}}`,
		`{"org": {"%s": "a{{ jwt.x }}"}}`,
	}
	for _, token := range []string{`{}`, `{"x": null}`, `{"x": ""}`, `{"x": {}}`, `{"x": []}`, `{"x": {"y": "a"}}`, `{"x": ["a", null]}`, `{"x": ["a", {}]}`, `{"x": ["a", ""]}`, `{"x": [["a"]]}`} {
		for _, op := range []string{"_eq", "_neq", "_gt", "_gte", "_lt", "_lte", "_like", "_in", "_nin"} {
			for _, condition := range conditions {
				filter := fmt.Sprintf(condition, op)
				b := filterGrant(t, filter).Bind(claims(t, token), table)
				require.NoError(t, b.Fault())
				assert.Equal(t, "x", b.Unresolved(), "%s with %s", filter, token)
				predicate, none := b.Rows()
				assert.Nil(t, predicate)
				assert.True(t, none)
				assert.Equal(t, "no", sees(t, b, table, `{"org": "birch"}`), "%s with %s", filter, token)
			}
		}
	}
	for _, op := range []string{"_eq", "_neq", "_gt", "_lt"} {
		b := filterGrant(t, `{"org": {"`+op+`": "{{ jwt.x }}"}}`).Bind(claims(t, `{"x": ["a"]}`), table)
		assert.Equal(t, "no", sees(t, b, table, `{"org": "birch"}`), "a list is not one value")
	}
	for _, bad := range []string{`"abc"`, `-1`, `1.5`, `18446744073709551616`, `true`, `[1, "abc"]`} {
		for _, op := range []string{"_in", "_nin"} {
			b := filterGrant(t, `{"tenant": {"`+op+`": "{{ jwt.x }}"}}`).Bind(claims(t, `{"x": `+bad+`}`), table)
			assert.Equal(t, "no", sees(t, b, table, `{"tenant": 7}`), "%s %s", op, bad)
			assert.Equal(t, "x", b.Unresolved())
		}
	}
}

func TestALongNumericClaim(t *testing.T) {
	table := pages()
	b := filterGrant(t, `{"tenant": {"_eq": "{{ jwt.id }}"}}`).Bind(claims(t, `{"id": 9007199254740993}`), table)
	assert.Equal(t, "yes", sees(t, b, table, `{"tenant": 9007199254740993}`))
	assert.Equal(t, "no", sees(t, b, table, `{"tenant": 9007199254740992}`))
}

// A filter that does not fit the table shows nothing and says why.
func TestAFilterThatDoesNotFit(t *testing.T) {
	for filter, why := range map[string]string{
		`{"lost": {"_eq": "x"}}`:                                                `no column "lost"`,
		`{"lost": {"_is_null": true}}`:                                          `no column "lost"`,
		`{"_not": {"lost": {"_eq": "x"}}}`:                                      `no column "lost"`,
		`{"_or": [{"org": {"_neq": "x"}}, {"Org": {"_eq": "x"}}]}`:              `no column "Org"`,
		`{"gone": {"_eq": "x"}}`:                                                "EPHEMERAL",
		`{"tags": {"_eq": "x"}}`:                                                "cannot be compared",
		`{"any": {"_neq": "x"}}`:                                                "cannot be compared",
		`{"tenant": {"_like": "1%"}}`:                                           "_like compares text",
		`{"tenant": {"_eq": "abc"}}`:                                            "tenant",
		`{"score": {"_neq": "NaN"}}`:                                            "compares with nothing",
		`{"tenant": {"_in": [1, -1]}}`:                                          "tenant",
		`{"org": {"_eq": "{{ jwt.unheard }}"}, "lost": {"_eq": "{{ jwt.x }}"}}`: `no column "lost"`,
	} {
		table := pages()
		b := filterGrant(t, filter).Bind(nil, table)
		require.ErrorContains(t, b.Fault(), why, filter)
		predicate, none := b.Rows()
		assert.Nil(t, predicate)
		assert.True(t, none)
		assert.Equal(t, "withheld", sees(t, b, table, `{"org": "birch", "tenant": 1, "score": 1}`))
	}
	require.Error(t, filterGrant(t, `{"org": {"_eq": "x"}}`).Bind(nil, nil).Fault(), "the table is not known")
	assert.NoError(t, policy.OperatorSelect().Bind(nil, nil).Fault())
}

func TestARowOfAnotherTime(t *testing.T) {
	b := filterGrant(t, `{"org": {"_eq": "birch"}}`).Bind(nil, pages())
	older := record.Compile("pages", []record.Column{{Name: "org", Type: "LowCardinality(String)"}}, time.UTC)
	assert.Equal(t, "withheld", sees(t, b, older, `{"org": "birch"}`), "the column had another type")
	layout, row := encoded(t, pages(), `{"event_id": "1", "org": "birch"}`)
	_, err := b.Visible(layout, row[:3])
	require.Error(t, err, "a row that is cut short")
	visible, err := b.Visible(layout, row)
	require.NoError(t, err)
	assert.True(t, visible)
}

func TestFingerprintCoversTheResolvedValues(t *testing.T) {
	g := filterGrant(t, `{"org": {"_eq": "{{ jwt.org }}"}}`)
	of := func(token string, table *record.Table) string { return g.Bind(claims(t, token), table).Fingerprint() }
	birch := of(`{"org": "birch", "sub": "a"}`, pages())
	assert.Equal(t, birch, of(`{"org": "birch", "sub": "b"}`, pages()), "claims that no rule names change nothing")
	prints := map[string]bool{
		birch: true, of(`{"org": "cedar"}`, pages()): true, of(`{}`, pages()): true, of(`{"org": 7}`, pages()): true, policy.OperatorSelect().Bind(nil, nil).Fingerprint(): true,
	}
	assert.Len(t, prints, 5)
	retyped := record.Compile("pages", []record.Column{{Name: "org", Type: "FixedString(9)"}}, time.UTC)
	assert.NotEqual(t, birch, of(`{"org": "birch"}`, retyped))
	other := filterGrant(t, `{"org": {"_neq": "{{ jwt.org }}"}}`)
	assert.NotEqual(t, birch, other.Bind(claims(t, `{"org": "birch"}`), pages()).Fingerprint())
	assert.Equal(t, policy.OperatorSelect().Bind(nil, nil).Fingerprint(), policy.OperatorSelect().Bind(claims(t, `{"org": "x"}`), pages()).Fingerprint())
}

func TestInsertChecks(t *testing.T) {
	grant := func(check string) *policy.InsertGrant {
		g, err := load(t, `{"tables": {"pages": {"writer": {"insert": {"check": `+check+`}}}}}`, "writer").Insert("writer", "pages")
		require.NoError(t, err)
		return g
	}
	b := grant(`{"org": {"_eq": "{{ jwt.org }}"}, "team": {"_in": ["a", "{{ jwt.teams }}"]}}`).Bind(claims(t, `{"org": "birch", "teams": ["b"]}`), pages())
	require.NoError(t, b.Fault())
	require.Nil(t, b.Refuse)
	require.Len(t, b.Checks, 2)
	assert.True(t, b.Checks[0].Stamp)
	assert.False(t, b.Checks[1].Stamp)
	assert.Len(t, b.Checks[1].Allowed, 2)

	missing := grant(`{"org": {"_eq": "{{ jwt.org }}"}}`).Bind(nil, pages())
	require.NoError(t, missing.Fault())
	require.NotNil(t, missing.Refuse)
	assert.Equal(t, record.CodeCheckFailed, missing.Refuse.Code)
	assert.Contains(t, missing.Refuse.Message, `"org"`)

	for check, why := range map[string]string{
		`{"lost": {"_eq": "x"}}`: "no column", `{"made": {"_eq": "x"}}`: "computed", `{"tags": {"_eq": "x"}}`: "cannot be compared",
		`{"tenant": {"_eq": "x"}}`: "tenant",
	} {
		b := grant(check).Bind(nil, pages())
		require.ErrorContains(t, b.Fault(), why)
		require.NotNil(t, b.Refuse)
		assert.Contains(t, b.Refuse.Message, "policy fault")
	}
	assert.Equal(t, policy.BoundInsert{}, policy.OperatorInsert().Bind(nil, pages()))
}

func TestVisibleDoesNotAllocate(t *testing.T) {
	b := filterGrant(t, `{"org": {"_in": "{{ jwt.orgs }}"}, "team": {"_like": "r%d"}}`).Bind(claims(t, `{"orgs": ["cedar", "birch"]}`), pages())
	layout, row := encoded(t, pages(), `{"event_id": "1", "org": "birch", "team": "red"}`)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if ok, err := b.Visible(layout, row); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}))
}

func BenchmarkVisible(b *testing.B) {
	bound := filterGrant(b, `{"org": {"_eq": "{{ jwt.org }}"}}`).Bind(claims(b, `{"org": "birch"}`), pages())
	layout, row := encoded(b, pages(), `{"event_id": "1", "org": "birch", "team": "red"}`)
	b.ReportAllocs()
	for b.Loop() {
		if ok, _ := bound.Visible(layout, row); !ok {
			b.Fatal("hidden")
		}
	}
}

func BenchmarkBind(b *testing.B) {
	g, table, token := filterGrant(b, `{"org": {"_eq": "{{ jwt.org }}"}}`), pages(), claims(b, `{"org": "birch"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, none := g.Bind(token, table).Rows(); none {
			b.Fatal("no row")
		}
	}
}
