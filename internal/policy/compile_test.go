package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

func TestFaults(t *testing.T) {
	const roles = "viewer"
	cases := []struct{ name, text, path, message string }{
		{"default role unknown", `{"default_role": "ghost"}`, "default_role", `role "ghost" is not in roles.json`},
		{"admin role unknown", `{"admin_role": "root"}`, "admin_role", `role "root" is not in roles.json`},
		{"admin role empty", `{"admin_role": ""}`, "admin_role", "must have a name"},
		{"role of an entry unknown", `{"tables": {"t": {"Viewer": {"select": {}}}}}`, "tables.t.Viewer", "not in roles.json"},
		{"no wildcard role", `{"tables": {"t": {"*": {"select": {}}}}}`, "tables.t.*", "not in roles.json"},
		{"table without a name", `{"tables": {"": {}}}`, "tables", "a name in it is empty"},
		{"column without a name", `{"tables": {"t": {"viewer": {"select": {"allow_columns": ["a", ""]}}}}}`, "tables.t.viewer.select.allow_columns[1]", "must have a name"},
		{"denied column without a name", `{"tables": {"t": {"viewer": {"insert": {"deny_columns": [""]}}}}}`, "tables.t.viewer.insert.deny_columns[0]", "must have a name"},
		{"unknown aggregation", `{"tables": {"t": {"viewer": {"select": {"denied_aggregations": ["quantil"]}}}}}`, "tables.t.viewer.select.denied_aggregations[0]", `unknown aggregation "quantil"`},
		{"negative rows", `{"tables": {"t": {"viewer": {"select": {"max_rows": -1}}}}}`, "tables.t.viewer.select.max_rows", "at least 0"},
		{"negative rows to read", `{"tables": {"t": {"viewer": {"select": {"max_rows_to_read": -1}}}}}`, "tables.t.viewer.select.max_rows_to_read", "at least 0"},
		{"negative time", `{"tables": {"t": {"viewer": {"select": {"max_execution_time": -1}}}}}`, "tables.t.viewer.select.max_execution_time", "negative"},
		{"a fraction of a row", `{"tables": {"t": {"viewer": {"select": {"max_rows": 1.5}}}}}`, "tables.t.viewer.select.max_rows", "whole number"},
		{"a size that is none", `{"tables": {"t": {"viewer": {"select": {"max_memory_usage": "4 buckets"}}}}}`, "tables.t.viewer.select.max_memory_usage", "size"},
		{"a dotted table", `{"tables": {"a.b": {"ghost": {}}}}`, `tables["a.b"].ghost`, "not in roles.json"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, faults, _ := compile(t, c.text, roles)
			assert.Nil(t, p)
			require.Len(t, faults, 1)
			assert.Equal(t, c.path, faults[0].Path)
			assert.Contains(t, faults[0].Message, c.message)
		})
	}
}

func TestEveryFaultIsReportedAtOnce(t *testing.T) {
	p, faults, _ := compile(t, `{"default_role": "a", "tables": {
		"t": {"b": {"select": {"filter": {"x": {"eq": 1, "_gt": null}}, "max_rows": -1}}, "c": {"insert": {"check": {}}}}}}`)
	assert.Nil(t, p)
	var paths []string
	for _, f := range faults {
		paths = append(paths, f.Path)
	}
	assert.ElementsMatch(t, []string{
		"default_role", "tables.t.b", "tables.t.b.select.filter.x._gt", "tables.t.b.select.filter.x.eq", "tables.t.b.select.max_rows",
		"tables.t.c", "tables.t.c.insert.check",
	}, paths)
}

func TestWarnings(t *testing.T) {
	cases := []struct{ name, text, path string }{
		{"no policy", `{}`, ""},
		{"a grant keyed by the admin role", `{"tables": {"t": {"admin": {"select": {}}}}}`, "tables.t.admin"},
		{"a grant keyed by a renamed admin role", `{"admin_role": "viewer", "tables": {"t": {"viewer": {"select": {}}}}}`, "tables.t.viewer"},
		{"an empty grant", `{"tables": {"t": {"viewer": {}}}}`, "tables.t.viewer"},
		{"the default role is the admin role", `{"default_role": "admin"}`, "default_role"},
		{"the default role is the renamed admin role", `{"default_role": "viewer", "admin_role": "viewer"}`, "default_role"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, faults, warnings := compile(t, c.text, "viewer")
			assert.NotNil(t, p, "a warning does not stand in the way")
			assert.Empty(t, faults)
			require.Len(t, warnings, 1)
			assert.Equal(t, c.path, warnings[0].Path)
			assert.NotEmpty(t, warnings[0].Message)
		})
	}
	_, _, warnings := compile(t, `{"default_role": "viewer", "tables": {"*": {"viewer": {"select": {}, "insert": {}}}}}`, "viewer")
	assert.Empty(t, warnings)
}

func TestANilDocumentIsNoPolicy(t *testing.T) {
	p, faults, warnings := policy.Compile(nil, nil)
	assert.Empty(t, faults)
	assert.Len(t, warnings, 1)
	assert.False(t, p.Adopted())
}

// Whatever is in the file, it compiles to a policy or to faults, and what was
// not granted stays denied.
func FuzzCompile(f *testing.F) {
	f.Add(`{}`)
	f.Add(`{"default_role": "viewer", "tables": {"*": {"viewer": {"select": {"deny_columns": ["ip"]}}}}}`)
	f.Add(`{"tables": {"t": {"viewer": {"select": {"filter": {"a": 1}}}}}}`)
	f.Add(`{"tables": {"t": {"viewer": {"select": {"filter": {"_or": [{"a": {"_in": ["{{ jwt.a }}", 1]}}, {"_not": {"b": {"_like": "x%"}}}]}}}}}}`)
	f.Add(`{"tables": {"t": {"viewer": {"insert": {"check": {"a": {"_eq": "x-{{jwt.sub}}"}}}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var doc policy.Document
		if len(strictjson.Decode([]byte(text), &doc)) > 0 {
			return
		}
		p, faults, _ := policy.Compile(&doc, []string{"viewer"})
		if (p == nil) != (len(faults) > 0) {
			t.Fatalf("policy %v with faults %v", p, faults)
		}
		if _, err := p.Select("stranger", "t"); err == nil && doc.AdminRole == nil {
			t.Fatal("a role that no policy can name was let in")
		}
	})
}

func BenchmarkSelect(b *testing.B) {
	p := load(b, `{"tables": {"events": {"viewer": {"select": {"deny_columns": ["ip"]}}}}}`, "viewer")
	b.ReportAllocs()
	for b.Loop() {
		g, err := p.Select("viewer", "events")
		if err != nil || !g.Allows("page") {
			b.Fatal("denied")
		}
	}
}
