package query

import (
	"maps"
	"strings"

	"github.com/wavehouse/wavehouse/internal/record"
)

// A condition of the caller's that fails on a value must not be asked of a
// hidden row: its failure would say that the row is there, and ClickHouse's
// message would quote the value. The row rule stands first in WHERE, but
// ClickHouse judges first what is cheapest to read. A stored column is compared
// with a value of its own type, which never fails; what is computed as it is
// read may.

// keepsOrder has ClickHouse judge the conditions as they are written. It is
// what can be done for a view, whose expressions are not known here.
var keepsOrder = map[string]string{
	"allow_reorder_prewhere_conditions":           "0",
	"move_primary_key_columns_to_end_of_prewhere": "0",
	"short_circuit_function_evaluation":           "enable",
}

// keepOrder adds keepsOrder to the settings where it matters.
func (b *builder) keepOrder(settings map[string]string) {
	if b.ruled && len(b.where) > 1 && !b.mergeTree() {
		maps.Copy(settings, keepsOrder)
	}
}

// filters returns the conditions of PREWHERE and of WHERE. Only the rows that
// PREWHERE lets through are there when WHERE is judged.
func (b *builder) filters() (prewhere, where []string) {
	if b.ruled && b.mergeTree() && b.mayFail() {
		return b.where[:1], b.where[1:]
	}
	return nil, b.where
}

func (b *builder) mergeTree() bool { return strings.HasSuffix(b.cols.table.Engine, "MergeTree") }

// mayFail reports whether the caller compares something that is computed.
func (b *builder) mayFail() bool {
	if r := b.doc.TimeRange; r != nil && b.computed(r.Column) {
		return true
	}
	for _, f := range b.doc.Filters {
		if b.computed(f.Column) {
			return true
		}
	}
	return false
}

// computed reports whether the column is an expression over others.
func (b *builder) computed(name string) bool {
	index, ok := b.cols.table.Record.Lookup(name)
	return ok && b.cols.table.Record.Columns()[index].DefaultKind == record.DefaultAlias
}
