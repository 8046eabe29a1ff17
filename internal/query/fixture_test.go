package query_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC)

// tableOf compiles a table from pairs of column name and type.
func tableOf(name string, zone *time.Location, columns ...string) *schema.Table {
	t := &schema.Table{Name: name, Engine: "MergeTree"}
	for i := 0; i < len(columns); i += 2 {
		t.Columns = append(t.Columns, record.Column{Name: columns[i], Type: columns[i+1], Position: i/2 + 1})
	}
	t.Record = record.Compile(name, t.Columns, zone)
	return t
}

// pages is the table of the cases.
func pages() *schema.Table {
	return tableOf("pages", time.UTC,
		"event_id", "String", "page", "String", "org", "String", "secret", "String",
		"n", "Int64", "ts", "DateTime64(3, 'UTC')")
}

// types has a column of each kind.
func types() *schema.Table {
	t := tableOf("types", time.UTC,
		"i8", "Int8", "u64", "UInt64", "u256", "UInt256", "f", "Float64", "dec", "Decimal(18, 2)",
		"s", "String", "lc", "LowCardinality(Nullable(String))", "fs", "FixedString(4)", "b", "Bool",
		"u", "UUID", "ip", "IPv4", "e", "Enum8('a' = 1, 'b\\'}' = 2)", "d", "Date", "d32", "Date32",
		"dt", "DateTime", "berlin", "DateTime('Europe/Berlin')", "t6", "Nullable(DateTime64(6, 'UTC'))",
		"arr", "Array(String)", "state", "AggregateFunction(sum, UInt64)", "sum", "SimpleAggregateFunction(sum, UInt64)",
		"a.b", "String", "odd`name\\", "Int64", "gone", "String", "made", "Int64")
	for i := range t.Columns {
		switch t.Columns[i].Name {
		case "gone":
			t.Columns[i].DefaultKind, t.Columns[i].DefaultExpression = record.DefaultEphemeral, "''"
		case "made":
			t.Columns[i].DefaultKind, t.Columns[i].DefaultExpression = record.DefaultMaterialized, "i8 + 1"
		}
	}
	t.Record = record.Compile(t.Name, t.Columns, time.UTC)
	return t
}

// grantOf compiles the grant of a select rule.
func grantOf(t testing.TB, rule policy.SelectDocument) *policy.SelectGrant {
	t.Helper()
	p, faults, _ := policy.Compile(&policy.Document{Tables: map[string]policy.TableDocument{
		policy.AllTables: {"viewer": {Select: &rule}},
	}}, []string{"viewer"})
	require.Empty(t, faults)
	g, err := p.Select("viewer", "any")
	require.NoError(t, err)
	return g
}

func options() query.Options {
	return query.Options{Now: now, BucketSeconds: 60, DefaultMaxRows: 1000}
}

// build parses and compiles a document.
func build(table *schema.Table, grant *policy.SelectGrant, body string) (*query.Statement, error) {
	doc, err := query.Parse([]byte(body))
	if err != nil {
		return nil, err
	}
	return query.Build(doc, table, grant.Bind(nil, table.Record), options())
}

// asError returns the *query.Error in err, which must be one.
func asError(t testing.TB, err error) *query.Error {
	t.Helper()
	var e *query.Error
	require.True(t, errors.As(err, &e), "want a *query.Error, got %v", err)
	return e
}
