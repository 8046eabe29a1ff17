package policy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// load decodes and compiles a policies.json that must be free of faults.
func load(t testing.TB, text string, roles ...string) *policy.Policy {
	t.Helper()
	p, faults, _ := compile(t, text, roles...)
	require.Empty(t, faults)
	return p
}

func compile(t testing.TB, text string, roles ...string) (p *policy.Policy, faults, warnings []strictjson.Fault) {
	t.Helper()
	var doc policy.Document
	read, faults := strictjson.Parse([]byte(text))
	faults = append(faults, policy.Fields().Decode(read, &doc)...)
	p, meant, warnings := policy.Compile(&doc, append([]string{}, roles...))
	if len(faults) > 0 {
		p = nil
	}
	return p, append(faults, meant...), warnings
}

func TestColumnsOfAGrant(t *testing.T) {
	cases := []struct {
		name, rule    string
		allowed, deny []string
	}{
		{"an empty rule is every column", `{}`, []string{"a", "b", "*"}, nil},
		{"an empty allow list is every column", `{"allow_columns": []}`, []string{"a", "b"}, nil},
		{"the star is every column", `{"allow_columns": ["*"]}`, []string{"a", "b"}, nil},
		{"a list is itself, exactly", `{"allow_columns": ["a"]}`, []string{"a"}, []string{"b", "A", "", "*"}},
		{"deny wins over the star", `{"allow_columns": ["*"], "deny_columns": ["b"]}`, []string{"a"}, []string{"b"}},
		{"deny wins over a name", `{"allow_columns": ["a", "b"], "deny_columns": ["b"]}`, []string{"a"}, []string{"b", "c"}},
		{"deny alone leaves the rest", `{"deny_columns": ["b"]}`, []string{"a"}, []string{"b"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := load(t, `{"tables": {"t": {"r": {"select": `+c.rule+`, "insert": `+c.rule+`}}}}`, "r")
			reads, err := p.Select("r", "t")
			require.NoError(t, err)
			writes, err := p.Insert("r", "t")
			require.NoError(t, err)
			for _, column := range c.allowed {
				assert.True(t, reads.Allows(column), "select %q", column)
				assert.True(t, writes.Allows(column), "insert %q", column)
			}
			for _, column := range c.deny {
				assert.False(t, reads.Allows(column), "select %q", column)
				assert.False(t, writes.Allows(column), "insert %q", column)
			}
		})
	}
}

func TestARoleThatMayReadNoColumnHasNoGrant(t *testing.T) {
	for _, rule := range []string{
		`{"deny_columns": ["*"]}`,
		`{"allow_columns": ["a"], "deny_columns": ["*"]}`,
		`{"allow_columns": ["a", "b"], "deny_columns": ["b", "a"]}`,
	} {
		p, faults, warnings := compile(t, `{"tables": {"t": {"r": {"select": `+rule+`, "insert": `+rule+`}}}}`, "r")
		require.Empty(t, faults)
		require.Len(t, warnings, 2)
		assert.Equal(t, "tables.t.r.select", warnings[0].Path)
		assert.Equal(t, "tables.t.r.insert", warnings[1].Path)
		_, err := p.Select("r", "t")
		assert.ErrorIs(t, err, policy.ErrNoGrant, rule)
		_, err = p.Insert("r", "t")
		assert.ErrorIs(t, err, policy.ErrNoGrant, rule)
	}
}

func TestWildcardTable(t *testing.T) {
	p := load(t, `{"tables": {
		"*":    {"viewer": {"select": {"deny_columns": ["ip"]}}, "writer": {"insert": {}}},
		"own":  {"viewer": {"select": {"allow_columns": ["a"]}}},
		"mute": {}
	}}`, "viewer", "writer")

	any, err := p.Select("viewer", "whatever")
	require.NoError(t, err)
	assert.True(t, any.Allows("a"))
	assert.False(t, any.Allows("ip"))

	own, err := p.Select("viewer", "own")
	require.NoError(t, err)
	assert.True(t, own.Allows("a"))
	assert.False(t, own.Allows("b"), "a table's own entry is not widened by the wildcard's")

	_, err = p.Insert("writer", "whatever")
	assert.NoError(t, err)
	_, err = p.Insert("writer", "own")
	assert.ErrorIs(t, err, policy.ErrNoGrant, "a table with an entry of its own is out of the wildcard for every role")
	_, err = p.Select("viewer", "mute")
	assert.ErrorIs(t, err, policy.ErrNoGrant)
	_, err = p.Select("writer", "whatever")
	assert.ErrorIs(t, err, policy.ErrNoGrant, "an insert grant reads nothing")
}

func TestRoles(t *testing.T) {
	p := load(t, `{"default_role": "public", "tables": {"t": {
		"public": {"select": {"allow_columns": ["a"]}}, "viewer": {"select": {}}}}}`, "public", "viewer")

	role, ok := p.Role("")
	assert.True(t, ok)
	assert.Equal(t, "public", role)
	role, ok = p.Role("viewer")
	assert.True(t, ok)
	assert.Equal(t, "viewer", role)

	byDefault, err := p.Select("", "t")
	require.NoError(t, err)
	assert.False(t, byDefault.Allows("b"))
	for _, name := range []string{"Viewer", "viewer ", "nobody", "*"} {
		_, err := p.Select(name, "t")
		assert.ErrorIs(t, err, policy.ErrNoGrant, "role %q", name)
	}
}

func TestWithoutADefaultRoleTheEmptyRoleMatchesNothing(t *testing.T) {
	for _, text := range []string{`{"tables": {"*": {}}}`, `{"default_role": "", "tables": {}}`} {
		p := load(t, text)
		_, ok := p.Role("")
		assert.False(t, ok)
		_, err := p.Select("", "t")
		assert.ErrorIs(t, err, policy.ErrNoRole)
		_, err = p.Insert("", "t")
		assert.ErrorIs(t, err, policy.ErrNoRole)
	}
}

func TestAdminRole(t *testing.T) {
	p := load(t, `{"tables": {"t": {"admin": {"select": {"allow_columns": ["a"], "max_rows": 1}}}}}`)
	assert.True(t, p.IsAdmin("admin"))
	assert.False(t, p.IsAdmin(""))
	grant, err := p.Select("admin", "t")
	require.NoError(t, err)
	assert.True(t, grant.Allows("anything"), "an entry for the admin role has no effect")
	assert.Zero(t, grant.MaxRows())
	_, err = p.Insert("admin", "never seen")
	assert.NoError(t, err)

	renamed := load(t, `{"admin_role": "root"}`, "root", "admin")
	assert.True(t, renamed.IsAdmin("root"))
	assert.False(t, renamed.IsAdmin("admin"))
	_, err = renamed.Select("admin", "t")
	assert.ErrorIs(t, err, policy.ErrNoGrant)
}

func TestNoPolicyDeniesEveryone(t *testing.T) {
	p, faults, warnings := compile(t, `{}`, "viewer")
	require.Empty(t, faults)
	require.Len(t, warnings, 1, "validate says that there is no policy")
	var none *policy.Policy
	for name, p := range map[string]*policy.Policy{"empty": p, "nil": none} {
		assert.False(t, p.Adopted(), name)
		assert.False(t, p.IsAdmin("admin"), name)
		for _, role := range []string{"", "viewer", "admin"} {
			_, err := p.Select(role, "t")
			assert.ErrorIs(t, err, policy.ErrNoPolicy, "%s: select as %q", name, role)
			_, err = p.Insert(role, "t")
			assert.ErrorIs(t, err, policy.ErrNoPolicy, "%s: insert as %q", name, role)
		}
	}
	assert.True(t, policy.OperatorSelect().Allows("x"))
	assert.True(t, policy.OperatorInsert().Allows("x"))
}

func TestAggregationRules(t *testing.T) {
	grant := func(rule string) *policy.SelectGrant {
		g, err := load(t, `{"tables": {"t": {"r": {"select": `+rule+`}}}}`, "r").Select("r", "t")
		require.NoError(t, err)
		return g
	}
	open := grant(`{"allowed_aggregations": []}`)
	for _, fn := range policy.Aggregations() {
		assert.True(t, open.AllowsAggregation(fn), fn)
	}
	few := grant(`{"allowed_aggregations": ["count", "median"]}`)
	assert.True(t, few.AllowsAggregation("count"))
	assert.True(t, few.AllowsAggregation("median"))
	assert.False(t, few.AllowsAggregation("quantile"), "a median does not open every quantile")
	assert.False(t, few.AllowsAggregation("sum"))

	denied := grant(`{"denied_aggregations": ["quantile", "count_distinct"]}`)
	for _, fn := range []string{"quantile", "quantiles", "median", "count_distinct", "uniq"} {
		assert.False(t, denied.AllowsAggregation(fn), fn)
	}
	assert.True(t, denied.AllowsAggregation("count"))
	for _, fn := range []string{"any", "any_last", "arg_max", "arg_min", "group_array", "group_uniq_array", "histogram", "top_k"} {
		denied, allowed := grant(`{"denied_aggregations": ["`+fn+`"]}`), grant(`{"allowed_aggregations": ["`+fn+`"]}`)
		for _, other := range policy.Aggregations() {
			assert.Equal(t, other != fn, denied.AllowsAggregation(other), "%s without %s", other, fn)
			assert.Equal(t, other == fn, allowed.AllowsAggregation(other), "%s with %s alone", other, fn)
		}
	}
	assert.False(t, grant(`{"allowed_aggregations": ["sum"], "denied_aggregations": ["sum"]}`).AllowsAggregation("sum"), "deny wins")
}

func TestResourceCaps(t *testing.T) {
	g, err := load(t, `{"tables": {"t": {"r": {"select": {"max_rows": 1000, "max_execution_time": "5s",
		"max_rows_to_read": 50000000, "max_memory_usage": "4GiB"}}}}}`, "r").Select("r", "t")
	require.NoError(t, err)
	assert.Equal(t, 1000, g.MaxRows())
	want := map[string]string{
		"max_execution_time": "5", "max_rows_to_read": "50000000", "max_memory_usage": "4294967296",
	}
	assert.Equal(t, want, g.Settings())
	g.Settings()["max_rows_to_read"] = "0"
	assert.Equal(t, want, g.Settings(), "a caller's change stays its own")

	g, err = load(t, `{"tables": {"t": {"r": {"select": {"max_execution_time": 0.5, "max_memory_usage": 1024}}}}}`, "r").Select("r", "t")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"max_execution_time": "0.5", "max_memory_usage": "1024"}, g.Settings())
	assert.Empty(t, policy.OperatorSelect().Settings())
}

func TestFingerprint(t *testing.T) {
	of := func(role, rule string) string {
		g, err := load(t, `{"tables": {"t": {"`+role+`": {"select": `+rule+`}}}}`, "a", "b").Select(role, "t")
		require.NoError(t, err)
		return g.Bind(nil, nil).Fingerprint()
	}
	same := of("a", `{"allow_columns": ["x", "y"]}`)
	assert.Equal(t, same, of("a", `{"allow_columns": ["y", "x", "x"]}`))
	distinct := []string{
		same, policy.OperatorSelect().Bind(nil, nil).Fingerprint(),
		of("b", `{"allow_columns": ["x", "y"]}`),
		of("a", `{"allow_columns": ["x"]}`),
		of("a", `{"allow_columns": ["x,y"]}`),
		of("a", `{"deny_columns": ["x", "y"]}`),
		of("a", `{"allow_columns": ["x", "y"], "max_rows": 5}`),
		of("a", `{"allow_columns": ["x", "y"], "max_memory_usage": 5}`),
		of("a", `{"allow_columns": ["x", "y"], "denied_aggregations": ["sum"]}`),
	}
	slices.Sort(distinct)
	assert.Len(t, slices.Compact(distinct), 9)
}

// A grant without a row filter shows what reading costs, and one with a filter where
// it says so; what is counted over the tenant, a role that says so wherever it reads.
func TestShowsCost(t *testing.T) {
	p := load(t, `{"default_role": "trusted", "tables": {
		"a": {"all": {"select": {}}, "some": {"select": {"filter": {"org": {"_eq": "x"}}}},
			"trusted": {"select": {"filter": {"org": {"_eq": "x"}}, "show_cost": true}}, "partly": {"select": {"show_cost": true}}, "writer": {"insert": {}}},
		"*": {"trusted": {"select": {"show_cost": true}}, "partly": {"select": {"filter": {"org": {"_eq": "x"}}}}}}}`, "all", "some", "trusted", "partly", "writer")
	for role, want := range map[string][2]bool{"all": {true, false}, "some": {false, false}, "trusted": {true, true}, "": {true, true}, "partly": {true, false}, "admin": {true, true}} {
		grant, err := p.Select(role, "a")
		require.NoError(t, err, role)
		assert.Equal(t, want, [2]bool{grant.ShowsCost(), p.ShowsCost(role)}, role)
	}
	assert.False(t, p.ShowsCost("writer"), "a role that reads nothing")
	assert.False(t, (*policy.Policy)(nil).ShowsCost("admin"))
}
