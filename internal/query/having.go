package query

import (
	"slices"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
)

// filterGroups fills HAVING: conditions on the aggregations and on what is
// grouped by.
func (b *builder) filterGroups() *Error {
	if b.doc.Having == nil {
		return nil
	}
	if !b.aggregates() {
		return invalid("having: it filters groups, and this query has none; name conditions on rows in filters")
	}
	compiled, err := b.conditionsOf("having", b.doc.Having, b.groupValue)
	b.having = compiled
	b.judgedLater(compiled)
	return err
}

// groupValue finds what a condition of having names: an aggregation, the time
// bucket, or a column that is grouped by.
func (b *builder) groupValue(clause, name string) (column, *Error) {
	if b.bucket.sql != "" && name == b.bucket.name {
		return b.cols.typed(name, "toDateTime64("+b.bucket.sql+", 0, 'UTC')", typeOf("Nullable(DateTime64(0, 'UTC'))")), nil
	}
	for _, out := range b.selected {
		if out.name == name && out.of != nil {
			return b.result(out), nil
		}
	}
	if !slices.Contains(b.doc.GroupBy, name) {
		return column{}, invalidColumn(name, "%s: %q is neither an aggregation of this query nor grouped by%s", clause, excerpt.Of(name), nearest.OneOf(name, b.groupNames()))
	}
	col, err := b.cols.lookup(clause, name)
	if col.untyped {
		col.sql = col.key()
	}
	col.sql = b.asGrouped(col.sql)
	return col, err
}

// groupNames are the names that having knows.
func (b *builder) groupNames() []string {
	names := slices.Clone(b.doc.GroupBy)
	for _, out := range b.selected {
		if out.of != nil {
			names = append(names, out.name)
		}
	}
	return names
}

// result is an aggregation as something to compare with. Any but an array is
// taken for one that may be NULL, which does no harm to one that is not.
func (b *builder) result(out output) column {
	typ := b.resultType(out.of)
	if typ.Kind != coltype.Array && typ.Kind != coltype.Other {
		typ = typeOf("Nullable(" + typ.Text + ")")
	}
	return b.cols.typed(out.name, out.sql, typ)
}
