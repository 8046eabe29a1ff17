package lineage

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseTree(t *testing.T) {
	for name, c := range map[string]struct {
		tree string
		want References
	}{
		"aliases":      {"TablesInSelectQuery (children 1)\n TableExpression (children 1)\n  TableIdentifier db.t (alias x)", References{Tables: []string{"db.t"}}},
		"in table":     {"Function in (children 1)\n ExpressionList (children 2)\n  Identifier page\n  Identifier pages", References{Tables: []string{"pages"}, Functions: []string{"in"}}},
		"in column":    {"Function in (children 1)\n ExpressionList (children 2)\n  Function tuple (children 1)\n   ExpressionList (children 2)\n    Identifier a\n    Identifier b\n  Literal 1", References{Functions: []string{"in", "tuple"}}},
		"in subquery":  {"Function globalNotIn (children 1)\n ExpressionList (children 2)\n  Identifier page\n  Subquery (children 1)\n   TableIdentifier u", References{Tables: []string{"u"}, Functions: []string{"globalNotIn"}}},
		"remote":       {"TableExpression (children 1)\n Function remote (alias n) (children 1)", References{TableFunctions: []string{"remote"}}},
		"clock":        {"Function greater (children 1)\n ExpressionList (children 2)\n  Identifier ts\n  Identifier Current_Timestamp", References{Functions: []string{"greater"}, clock: true}},
		"settings":     {"SelectQuery (children 1)\n Set", References{Settings: true}},
		"plain":        {"Function count (alias c)\nFunction notEquals", References{Functions: []string{"count", "notEquals"}}},
		"no name":      {"TablesInSelectQuery (children 1)\n TableExpression (children 1)\n  TableIdentifier", References{Tables: []string{""}, Opaque: true}},
		"new node":     {"TablesInSelectQuery (children 1)\n NovelTableThing t", References{Opaque: true}},
		"new names":    {"Tables (children 1)\n Table db.t", References{Opaque: true}},
		"new lines":    {"├── TableIdentifier db.t", References{Opaque: true}},
		"new format":   {"{\"kind\":\"TableIdentifier\",\"name\":\"db.t\"}", References{Opaque: true}},
		"a line break": {"Identifier a\nb", References{Opaque: true}},
	} {
		got := parseTree(strings.Split("SelectWithUnionQuery (children 1)\n"+c.tree, "\n"))
		assert.Equal(t, c.want, got, name)
	}
}

// What is no tree of a SELECT reads nobody knows what.
func TestTreesThatAreNotKnown(t *testing.T) {
	for name, rows := range map[string][]string{
		"nothing": nil, "an empty line": {""}, "a list of tables": {"ShowTables"}, "another root": {"SelectQuery (children 1)"},
	} {
		assert.Equal(t, References{Opaque: true}, parseTree(rows), name)
	}
}

func TestTargetOf(t *testing.T) {
	for create, want := range map[string]struct {
		target    string
		refreshed bool
	}{
		"CREATE MATERIALIZED VIEW d.mv TO d.tgt (`page` String) AS SELECT 1":                          {"d.tgt", false},
		"CREATE MATERIALIZED VIEW d.mv (`a TO b` String) ENGINE = Memory AS SELECT ' TO x'":           {"", false},
		"CREATE MATERIALIZED VIEW `d.x`.`m v` TO `d`.`t t` (`page` String) AS SELECT 1":               {"d.t t", false},
		"CREATE MATERIALIZED VIEW d.mv REFRESH EVERY 1 HOUR TO d.tgt (`page` String) AS SELECT 1":     {"d.tgt", true},
		"CREATE MATERIALIZED VIEW d.mv REFRESH EVERY 1 HOUR (`page` String) ENGINE = Log AS SELECT 1": {"", true},
		"something else": {"", true},
	} {
		target, refreshed := targetOf(create)
		assert.Equal(t, want.target, target, create)
		assert.Equal(t, want.refreshed, refreshed, create)
	}
}

func TestStringArguments(t *testing.T) {
	assert.Equal(t, []string{"default", "it's"}, stringArguments(`Buffer('default', 'it\'s', 1, 10)`))
	assert.Empty(t, stringArguments("Memory"))
	assert.Empty(t, stringArguments("Distributed(cluster)"))
}

func TestClosure(t *testing.T) {
	g := newGraph([]definition{
		{database: "d", name: "v", engine: "View", reads: references{tables: []string{"t", "e.u"}}},
		{database: "d", name: "loop", engine: "View", reads: references{tables: []string{"loop"}}},
		{database: "d", name: "buf", engine: "Buffer", engineFull: "Buffer('', 't', 1)"},
		{database: "d", name: "dist", engine: "Distributed", engineFull: "Distributed('c', 'd', 't', rand())"},
		{database: "d", name: "odd", engine: "Buffer", engineFull: "Buffer(x)"},
		{database: "d", name: "mem", engine: "Memory"},
		{database: "d", name: "s3", engine: "S3"},
		{database: "d", name: "now", engine: "View", reads: references{opaque: true}},
	})
	for table, want := range map[string]struct {
		all      []string
		complete bool
	}{
		"d.plain": {[]string{"d.plain"}, true},
		"d.mem":   {[]string{"d.mem"}, true},
		"d.t":     {[]string{"d.buf", "d.dist", "d.t"}, false}, // through the other shards
		"d.v":     {[]string{"d.buf", "d.dist", "d.e.u", "d.t", "d.v", "e.u"}, false},
		"d.loop":  {[]string{"d.loop"}, true},
		"d.odd":   {[]string{"d.odd"}, false},
		"d.s3":    {[]string{"d.s3"}, false},
		"d.now":   {[]string{"d.now"}, false},
	} {
		all, complete := g.closure([]string{table})
		slices.Sort(all)
		assert.Equal(t, want.all, all, table)
		assert.Equal(t, want.complete, complete, table)
	}
	many := make([]string, maxTables+1)
	for i := range many {
		many[i] = strings.Repeat("t", i+1)
	}
	all, complete := g.closure(many)
	assert.Len(t, all, maxTables)
	assert.False(t, complete)
}
