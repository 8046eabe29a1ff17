package query_test

import (
	"testing"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

// BenchmarkCompile is what becomes of a small document before ClickHouse is
// asked: read, checked and written as a statement.
func BenchmarkCompile(b *testing.B) {
	const body = `{"columns":["page","n"],"filters":[{"column":"page","op":"eq","value":"/home"},{"column":"n","op":"neq","value":42}],"limit":10}`
	table := pages()
	bound := grantOf(b, policy.SelectDocument{}).Bind(nil, table.Record)
	b.ReportAllocs()
	for b.Loop() {
		document, err := query.Parse([]byte(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := query.Build(document, table, bound, options()); err != nil {
			b.Fatal(err)
		}
	}
}
