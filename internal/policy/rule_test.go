package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A rule that is misspelled, that says nothing or that can never be resolved
// may never load as "no rule".
func TestFaultsOfRowRules(t *testing.T) {
	const filter, check = "tables.t.viewer.select.filter", "tables.t.viewer.insert.check"
	filters := func(rule string) string { return `{"select": {"filter": ` + rule + `}}` }
	checks := func(rule string) string { return `{"insert": {"check": ` + rule + `}}` }
	for _, c := range []struct{ entry, path, message string }{
		{filters(`{"org": {"eq": "x"}}`), filter + ".org.eq", `did you mean "_eq"?`},
		{filters(`{"org": {"_regex": "x"}}`), filter + ".org._regex", "want one of _eq, _gt"},
		{filters(`{"org": {}}`), filter + ".org", "is empty"},
		{filters(`{}`), filter, "is empty"},
		{filters(`null`), filter, "want an object"},
		{filters(`[]`), filter, "want an object"},
		{filters(`true`), filter, "want an object"},
		{filters(`{"org": "x"}`), filter + ".org", "an object of operators"},
		{filters(`{"org": null}`), filter + ".org", "an object of operators"},
		{filters(`{"_eq": "x"}`), filter + "._eq", "stands below a column"},
		{filters(`{"": {"_eq": "x"}}`), filter + `[""]`, "must have a name"},
		{filters(`{"{{ jwt.column }}": {"_eq": "x"}}`), filter, "holds no claims"},
		{filters(`{"org": {"_eq": null}}`), filter + ".org._eq", "use _is_null"},
		{filters(`{"org": {"_eq": ["x"]}}`), filter + ".org._eq", "want one value"},
		{filters(`{"org": {"_eq": {"x": 1}}}`), filter + ".org._eq", "want one value"},
		{filters(`{"org": {"_in": "x"}}`), filter + ".org._in", "want a list"},
		{filters(`{"org": {"_in": []}}`), filter + ".org._in", "1 to"},
		{filters(`{"org": {"_nin": []}}`), filter + ".org._nin", "1 to"},
		{filters(`{"org": {"_in": ["x", null]}}`), filter + ".org._in[1]", "may not be null"},
		{filters(`{"org": {"_in": [["x"]]}}`), filter + ".org._in[0]", "want one value"},
		{filters(`{"org": {"_is_null": 1}}`), filter + ".org._is_null", "true or false"},
		{filters(`{"org": {"_is_null": "{{ jwt.x }}"}}`), filter + ".org._is_null", "true or false"},
		{filters(`{"org": {"_like": 5}}`), filter + ".org._like", "must be a string"},
		{filters(`{"org": {"_like": "a\\b"}}`), filter + ".org._like", "must follow"},
		{filters(`{"org": {"_like": "a\\"}}`), filter + ".org._like", "must follow"},
		{filters(`{"org": {"_like": "` + strings.Repeat("a", 1025) + `"}}`), filter + ".org._like", "at most"},
		{filters(`{"_and": {}}`), filter + "._and", "want a list"},
		{filters(`{"_or": []}`), filter + "._or", "want a list"},
		{filters(`{"_or": [{}]}`), filter + "._or[0]", "is empty"},
		{filters(`{"_or": [{"a": {"_eq": 1}}, {"b": {"_x": 1}}]}`), filter + "._or[1].b._x", "unknown operator"},
		{filters(`{"_not": []}`), filter + "._not", "want an object"},
		{filters(`{"_not": {}}`), filter + "._not", "is empty"},
		{filters(`{"_nor": [{"a": {"_eq": 1}}]}`), filter + "._nor", "an object of operators"},
		{filters(`{"org": {"_eq": "{{ jwt.org }"}}`), filter + ".org._eq", "does not close"},
		{filters(`{"org": {"_eq": "{ jwt.org }}"}}`), filter + ".org._eq", "does not open"},
		{filters(`{"org": {"_eq": "{{jwt}}"}}`), filter + ".org._eq", "only claims"},
		{filters(`{"org": {"_eq": "{{jwt.}}"}}`), filter + ".org._eq", "joined by dots"},
		{filters(`{"org": {"_eq": "{{ jwt.a..b }}"}}`), filter + ".org._eq", "joined by dots"},
		{filters(`{"org": {"_eq": "{{ jwt.https://x.y/org }}"}}`), filter + ".org._eq", "named by a URL must be quoted"},
		{filters(`{"org": {"_eq": "{{ jwt.a b }}"}}`), filter + ".org._eq", "must be quoted"},
		{filters(`{"org": {"_eq": "{{ JWT.org }}"}}`), filter + ".org._eq", "only claims"},
		{filters(`{"org": {"_eq": "{{ tenant }}"}}`), filter + ".org._eq", "only claims"},
		{filters(`{"org": {"_eq": "{{}}"}}`), filter + ".org._eq", "only claims"},
		{filters(`{"org": {"_eq": "{{ jwt.{{ jwt.a }} }}"}}`), filter + ".org._eq", "must be quoted"},
		{filters(`{"org": {"_eq": "{{ jwt.a }} }}"}}`), filter + ".org._eq", "does not open"},
		{filters(`{"org": {"_eq": "\u007b\u007bjwt}}"}}`), filter + ".org._eq", "only claims"},
		{checks(`{"org": {"_gt": "x"}}`), check + ".org._gt", "in a check"},
		{checks(`{"org": {"_is_null": true}}`), check + ".org._is_null", "in a check"},
		{checks(`{"_and": [{"org": {"_eq": "x"}}]}`), check + "._and", "names columns only"},
		{checks(`{"_not": {"org": {"_eq": "x"}}}`), check + "._not", "names columns only"},
		{checks(`{}`), check, "is empty"},
		{checks(`{"org": {}}`), check + ".org", "is empty"},
		{checks(`{"org": {"_eq": null}}`), check + ".org._eq", "may not be null"},
		{checks(`{"org": {"_eq": "{{ jwt }}"}}`), check + ".org._eq", "only claims"},
		{`{"insert": {"filter": {"org": {"_eq": "x"}}}}`, "tables.t.viewer.insert.filter", ""},
		{`{"select": {"check": {"org": {"_eq": "x"}}}}`, "tables.t.viewer.select.check", ""},
		{`{"select": {"fliter": {"org": {"_eq": "x"}}}}`, "tables.t.viewer.select.fliter", ""},
		{`{"insert": {"max_rows": 1}}`, "tables.t.viewer.insert.max_rows", ""},
		{`{"selct": {}}`, "tables.t.viewer.selct", ""},
	} {
		p, faults, _ := compile(t, `{"tables": {"t": {"viewer": `+c.entry+`}}}`, "viewer")
		assert.Nil(t, p, c.entry)
		if assert.Len(t, faults, 1, c.entry) {
			assert.True(t, strings.HasPrefix(faults[0].Path, c.path), "%s: %s", c.entry, faults[0].Path)
			assert.Contains(t, faults[0].Message, c.message, c.entry)
		}
	}
}

func TestARuleHasABound(t *testing.T) {
	rule := `{"_or": [` + strings.Repeat(`{"a": {"_eq": 1}},`, 1000) + `{"a": {"_eq": 1}}]}`
	_, faults, _ := compile(t, `{"tables": {"t": {"viewer": {"select": {"filter": `+rule+`}}}}}`, "viewer")
	require.Len(t, faults, 1)
	assert.Contains(t, faults[0].Message, "1001 conditions")
}

func TestALiteralThatLooksLikeAClaimIsDoubted(t *testing.T) {
	p, faults, warnings := compile(t, `{"tables": {"t": {"viewer": {"select": {"filter": {"org": {"_eq": "{jwt.org}"}}}}}}}`, "viewer")
	require.Empty(t, faults)
	require.NotNil(t, p)
	require.Len(t, warnings, 1)
	assert.Equal(t, "tables.t.viewer.select.filter.org._eq", warnings[0].Path)
}
