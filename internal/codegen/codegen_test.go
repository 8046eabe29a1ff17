package codegen

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
)

// typed are column types, and what each is in TypeScript, read and inserted, and in Go.
var typed = []struct{ clickhouse, read, insert, golang string }{
	{"Int32", "number", "number", "int32"},
	{"UInt64", "number | bigint", "number | bigint | string", "uint64"},
	{"Int256", "number | bigint", "number | bigint | string", "json.Number"},
	{"UInt128", "number | bigint", "number | bigint | string", "json.Number"},
	{"Float64", "number | null", "number", "*float64"},
	{"Nullable(Float32)", "number | null", "number | null", "*float64"},
	{"Decimal(9, 2)", "number | bigint | string", "number | bigint | string", "json.Number"},
	{"Bool", "boolean", "boolean", "bool"},
	{"LowCardinality(Nullable(String))", "string | null", "string | null", "*string"},
	{"DateTime64(3)", "string", "string | Date", "time.Time"},
	{"Date", "string", "string", "string"},
	{"Enum8('a' = 1, 'it''s' = 2)", `"a" | "it's"`, `"a" | "it's"`, "string"},
	{"Array(Nullable(Int8))", "(number | null)[]", "(number | null)[]", "[]*int8"},
	{"Array(UInt8)", "number[]", "number[]", "[]uint16"},
	{"Map(String, Array(Bool))", "Record<string, boolean[]>", "Record<string, boolean[]>", "map[string][]bool"},
	{"Tuple(a Int8, b String)", `{ "a": number; "b": string }`, `{ "a": number; "b": string }`, "json.RawMessage"},
	{"Tuple(Int8, String)", "[number, string]", "[number, string]", "json.RawMessage"},
	{"Nested(a Int8)", `{ "a": number }[]`, `{ "a": number }[]`, "json.RawMessage"},
	{"SimpleAggregateFunction(sum, UInt32)", "number", "number", "uint32"},
	{"AggregateFunction(uniq, String)", "string", "string", "string"},
	{"Nothing", "null", "null", "json.RawMessage"},
	{"JSON", "unknown", "unknown", "json.RawMessage"},
	{"Nullable(JSON)", "unknown | null", "unknown | null", "json.RawMessage"},
	{"Tuple(", "unknown", "unknown", "json.RawMessage"},
}

func TestEachTypeOfClickHouseHasOneOfTheLanguage(t *testing.T) {
	for _, c := range typed {
		require.Equal(t, c.read, readType(c.clickhouse), c.clickhouse)
		require.Equal(t, c.insert, insertType(c.clickhouse), c.clickhouse)
		require.Equal(t, c.golang, goRead(c.clickhouse), c.clickhouse)
	}
	for declared, want := range map[string]string{
		"string": "string", "number": "number | bigint", "boolean": "boolean", "datetime": "string | Date", "uuid": "string",
		"array(number)": "readonly (number | bigint)[]", "identifier(a|b.c)": `"a" | "b.c"`,
	} {
		require.Equal(t, want, parameterType(declared), declared)
	}
}

func shapeFor(t *testing.T, role string) Shape {
	t.Helper()
	columns := []record.Column{
		{Name: "id", Type: "UInt64", Position: 1}, {Name: "page", Type: "String", Position: 2}, {Name: "secret", Type: "String", Position: 3},
		{Name: "n", Type: "Int8", Position: 4, DefaultKind: record.DefaultExpression, DefaultExpression: "1"},
		{Name: "day", Type: "Date", Position: 5, DefaultKind: record.DefaultMaterialized, DefaultExpression: "today()"},
		{Name: "raw", Type: "String", Position: 6, DefaultKind: record.DefaultEphemeral},
	}
	tables := []*schema.Table{
		{Name: "clicks", Columns: columns, Record: record.Compile("clicks", columns, time.UTC)},
		{Name: "other", Columns: columns[:1], Record: record.Compile("other", columns[:1], time.UTC)},
	}
	rules, faults, _ := policy.Compile(&policy.Document{
		DefaultRole: new("public"), AdminRole: new("admin"),
		Tables: map[string]policy.TableDocument{"clicks": {"viewer": {
			Select: &policy.SelectDocument{DenyColumns: []string{"secret"}}, Insert: &policy.InsertDocument{DenyColumns: []string{"secret"}},
		}}},
	}, []string{"public", "viewer", "admin"})
	require.Empty(t, faults)
	set, faults, _ := pipes.Compile(&pipes.Document{Pipes: []pipes.Definition{
		{Name: "top", SQL: "SELECT page FROM clicks WHERE org = {{ jwt.org }} AND n IN {{ns}} AND at > {{since}} AND d = {{d}} AND u = {{u}} AND b = {{b}} ORDER BY {{by}} LIMIT {{limit:3}}", AllowedRoles: []string{"viewer"}, Parameters: []pipes.Parameter{
			{Name: "limit", Type: "number"}, {Name: "ns", Type: "array(number)", Required: true}, {Name: "since", Type: "datetime", Required: true},
			{Name: "d", Type: "date", Required: true}, {Name: "u", Type: "uuid", Required: true}, {Name: "b", Type: "boolean", Required: true},
			{Name: "by", Type: "identifier(page|n)", Required: true},
		}},
		{Name: "unclear", SQL: "SELECT * FROM elsewhere", AllowedRoles: []string{"viewer"}},
		{Name: "private", SQL: "SELECT secret FROM clicks"},
	}}, []string{"viewer"}, func(string) bool { return false })
	require.Empty(t, faults)
	catalogue := schema.NewCatalogue(tables, time.UTC, time.Time{})
	return Of(&settings.Snapshot{Policy: rules, Pipes: set}, role, catalogue, func(statement string) ([]Field, error) {
		if strings.Contains(statement, "elsewhere") {
			return nil, errors.New("no such table")
		}
		require.NotContains(t, statement, "{{")
		return []Field{{Name: "page", Type: "String"}}, nil
	})
}

func TestARoleHasTheColumnsAndPipesOfItsGrants(t *testing.T) {
	shape := shapeFor(t, "viewer")
	require.Equal(t, []Table{{
		Name:   "clicks",
		Row:    []Field{{"id", "UInt64", false}, {"page", "String", false}, {"n", "Int8", false}, {"day", "Date", false}},
		Insert: []Field{{"id", "UInt64", false}, {"page", "String", false}, {"n", "Int8", true}, {"raw", "String", true}},
	}}, shape.Tables)
	require.Len(t, shape.Pipes, 2)
	require.Equal(t, []Field{{"page", "String", false}}, shape.Pipes[0].Row)
	require.Nil(t, shape.Pipes[1].Row)
	require.True(t, shape.Pipes[0].Parameters[0].Optional)
	require.Empty(t, shapeFor(t, "public").Tables)
	require.Len(t, shapeFor(t, "admin").Pipes, 3)

	ts := TypeScript(shape)
	require.Contains(t, ts, `"n"?: number;`)
	require.Contains(t, ts, "row: Record<string, unknown>;")
	source, err := Go(shape, "events")
	require.NoError(t, err)
	require.Contains(t, source, "type ClicksInsert struct")
	require.Contains(t, source, "`json:\"n,omitempty\"`")
	require.Contains(t, source, "type TopRow struct")
}

func TestNamesThatAGoFileCannotHoldTogetherAreRefused(t *testing.T) {
	row := []Field{{Name: "a-b", Type: "Int8"}, {Name: "a_b", Type: "Int8"}, {Name: "1st", Type: "DateTime"}, {Name: "event_id", Type: "String"}}
	source, err := Go(Shape{Tables: []Table{{Name: "t", Row: row}}}, "p")
	require.NoError(t, err)
	for _, name := range []string{"AB ", "AB2 ", "X1st ", "EventID "} {
		require.Contains(t, source, name)
	}
	_, err = Go(Shape{Tables: []Table{{Name: "a-b", Row: row}, {Name: "a_b", Row: row}}}, "p")
	require.ErrorContains(t, err, `"a-b" and "a_b" are both AB`)
}
