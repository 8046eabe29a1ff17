package query

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// conditions adds the caller's filters to WHERE.
func (b *builder) conditions() *Error {
	compiled, err := b.conditionsOf("filters", b.doc.Filters, b.filtered)
	b.where = append(b.where, compiled...)
	return err
}

// filtered finds the column that a condition on rows names.
func (b *builder) filtered(clause, name string) (column, *Error) {
	col, err := b.cols.lookup(clause, name)
	if err != nil && slices.ContainsFunc(b.selected, func(out output) bool { return out.of != nil && out.name == name }) {
		err.Message += "; conditions on aggregations go in having"
	}
	return col, err
}

func (b *builder) compare(clause string, col column, op string, value json.RawMessage) (string, *Error) {
	if col.untyped {
		return b.compareUntyped(clause, col, op, value)
	}
	if err := present(clause, col, value); err != nil {
		return "", err
	}
	typ, text, err := scalar(clause, col, value)
	switch {
	case err == nil && col.typ.Kind == coltype.Float && (op == " = " || op == " != "):
		return b.equalFloat(clause, col, op, typ, text)
	case err == nil:
		return b.bind(clause, col, op, typ, text)
	}
	if floor, exact, ok := col.floor(value); ok {
		if typ, text, fault := scalar(clause, col, floor); fault == nil {
			return b.compareFloor(clause, col, op, exact, typ, text)
		}
	}
	if t, finer := finerThanColumn(col, value); finer && col.codec != nil {
		before := t.Add(-time.Duration(modulo(int64(t.Nanosecond()), int64(tick(col.typ.Precision)))))
		return b.compareFloor(clause, col, op, false, timestampType(col.typ.Precision), timestampText(before, col.typ.Precision))
	}
	return "", err
}

// compareFloor compares a column with a value that lies between two of the
// column's, of which the lower one is given, or is that one exactly. It is
// compared at the column's own precision: at a finer one ClickHouse fails when
// it meets a time far away, and rounds what it makes floats of.
func (b *builder) compareFloor(clause string, col column, op string, exact bool, typ, text string) (string, *Error) {
	if exact {
		return b.bind(clause, col, op, typ, text)
	}
	switch op {
	case " = ":
		return col.never(), nil
	case " != ":
		return "NOT " + col.never(), nil
	case " >= ":
		op = " > "
	case " < ":
		op = " <= "
	}
	return b.bind(clause, col, op, typ, text)
}

// never is a condition that no value fulfils, and that is NULL for NULL: so is
// its negation.
func (c column) never() string {
	if c.stored == c.plain {
		return "0"
	}
	return "(" + c.sql + " IS NULL AND NULL)"
}

// equalFloat compares for equality. Of some equalities in a row ClickHouse makes
// a list, in which it looks for bits: zero has two, and NaN would be itself.
func (b *builder) equalFloat(clause string, col column, op, typ, text string) (string, *Error) {
	if f, err := strconv.ParseFloat(text, 64); err == nil && f != 0 && !math.IsNaN(f) {
		return b.bind(clause, col, op, typ, text)
	}
	from, err := b.bind(clause, col, " >= ", typ, text)
	if err != nil {
		return "", err
	}
	to, err := b.bind(clause, col, " <= ", typ, text)
	sql := "(" + from + " AND " + to + ")"
	if op == " != " {
		sql = "NOT " + sql
	}
	return sql, err
}

func (b *builder) bind(clause string, col column, op, typ, text string) (string, *Error) {
	name, err := b.values.bind(clause, text)
	if err != nil {
		return "", err
	}
	return col.sql + op + "{" + name + ":" + typ + "}", nil
}

// member compiles in and not_in. The list travels as a table of the column's
// own type, so that it may be long and holds what the column would hold.
func (b *builder) member(clause string, col column, op string, value json.RawMessage) (string, *Error) {
	if !col.untyped {
		if err := comparableColumn(clause, col); err != nil {
			return "", err
		}
	}
	items, err := listed(clause, col, value)
	if err != nil {
		return "", err
	}
	if col.untyped {
		return b.memberUntyped(clause, col, op, items)
	}
	return b.memberOf(clause, col, op, items)
}

// listed takes a list apart.
func listed(clause string, col column, value json.RawMessage) ([]json.RawMessage, *Error) {
	var items []json.RawMessage
	if faults := strictjson.Decode(value, &items); len(value) == 0 || len(faults) > 0 {
		return nil, invalidColumn(col.name, "%s: want an array of values", clause)
	}
	return items, nil
}

// memberOf compiles a list that has been taken apart.
func (b *builder) memberOf(clause string, col column, op string, items []json.RawMessage) (string, *Error) {
	table, err := b.listTable(clause, col, items, true)
	return col.sql + op + "(SELECT v FROM " + table + ")", err
}

// listTable adds a table of values of the column's type and returns its name.
// skip leaves out those between two that the column holds, as no value is equal
// to them.
func (b *builder) listTable(clause string, col column, items []json.RawMessage, skip bool) (string, *Error) {
	if len(items) > maxInList {
		return "", invalidColumn(col.name, "%s: %d values are more than the %d that a list may have", clause, len(items), maxInList)
	}
	var rows []byte
	for i, item := range items {
		if string(item) == "null" {
			return "", invalidColumn(col.name, "%s: value %d is null: use is_null", clause, i+1)
		}
		encoded, err := col.codec.AppendJSON(rows, item)
		if err != nil {
			if above, exact, ok := col.appendFloor(rows, item); ok && exact {
				encoded, err = above, nil
			} else if ok && skip {
				continue
			}
		}
		if err != nil {
			return "", refused(fmt.Sprintf("%s: value %d", clause, i+1), col, item, err)
		}
		rows = encoded
	}
	return b.values.table(col.stored, rows), nil
}

// like compiles like and not_like; a pattern is a text and nothing else.
func (b *builder) like(clause string, col column, op string, value json.RawMessage) (string, *Error) {
	p, err := pattern(clause, col, value)
	if err != nil {
		return "", err
	}
	return b.bind(clause, col, op, "String", p)
}

func isNull(clause string, col column, op string, value json.RawMessage) (string, *Error) {
	if len(value) > 0 {
		return "", invalidColumn(col.name, "%s: is_null and is_not_null take no value", clause)
	}
	return col.sql + op, nil
}

func present(clause string, col column, value json.RawMessage) *Error {
	switch {
	case len(value) == 0:
		return invalidColumn(col.name, "%s: the value is missing", clause)
	case string(value) == "null":
		return invalidColumn(col.name, "%s: a value may not be null: use is_null", clause)
	}
	return nil
}
