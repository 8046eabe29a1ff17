package query

import (
	"encoding/json"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// contains compiles a part of a text, an element of an array or a key of a map.
func (b *builder) contains(clause string, col column, value json.RawMessage) (string, *Error) {
	function := "has"
	switch {
	case textual(col):
		return b.substring(clause, col, value)
	case col.typ.Kind == coltype.Map:
		function = "mapContains"
	case col.typ.Kind != coltype.Array:
		return "", invalidColumn(col.name, "%s: contains looks into text, arrays and maps, and the column %q is %s", clause, excerpt.Of(col.name), col.plain)
	}
	inside, err := b.inside(clause, col)
	if err != nil {
		return "", err
	}
	if err := present(clause, inside, value); err != nil {
		return "", err
	}
	typ, text, err := scalar(clause, inside, value)
	if err != nil {
		return "", err
	}
	return b.call(clause, function, col, typ, text)
}

func (b *builder) containsAny(clause string, col column, value json.RawMessage) (string, *Error) {
	return b.containsList(clause, "hasAny", col, value)
}

func (b *builder) containsAll(clause string, col column, value json.RawMessage) (string, *Error) {
	return b.containsList(clause, "hasAll", col, value)
}

// containsList compares an array with one that travels as a table of its
// elements' own type.
func (b *builder) containsList(clause, function string, col column, value json.RawMessage) (string, *Error) {
	if col.typ.Kind != coltype.Array {
		return "", invalidColumn(col.name, "%s: contains_any and contains_all look into arrays, and the column %q is %s", clause, excerpt.Of(col.name), col.plain)
	}
	inside, err := b.inside(clause, col)
	if err != nil {
		return "", err
	}
	items, err := listed(clause, col, value)
	if err != nil {
		return "", err
	}
	table, err := b.listTable(clause, inside, items, false)
	return function + "(" + col.sql + ", (SELECT groupArray(v) FROM " + table + "))", err
}

// inside is an element of an array or a key of a map, which must compare.
func (b *builder) inside(clause string, col column) (column, *Error) {
	elem := b.cols.typed(col.name, col.sql, col.typ.Elem())
	if elem.codec == nil || !elem.typ.Ordered() {
		return elem, invalidColumn(col.name, "%s: what is in the column %q of type %s cannot be compared with a value", clause, excerpt.Of(col.name), col.plain)
	}
	return elem, nil
}
