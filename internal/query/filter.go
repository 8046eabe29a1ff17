package query

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// conditions adds the caller's filters to WHERE.
func (b *builder) conditions() *Error {
	for i, f := range b.doc.Filters {
		sql, err := b.condition(fmt.Sprintf("filters[%d]", i), f)
		if err != nil {
			return err
		}
		b.where = append(b.where, condition{sql: sql, mayFail: b.cols.computed(f.Column) || matches(f.Op)})
	}
	return nil
}

func (b *builder) condition(clause string, f Filter) (string, *Error) {
	col, err := b.cols.lookup(clause, f.Column)
	if err != nil {
		return "", err
	}
	if sql, ok := comparison(f.Op); ok {
		return b.compare(clause, col, sql, f.Value)
	}
	switch f.Op {
	case "in":
		return b.member(clause, col, " IN ", f.Value)
	case "not_in":
		return b.member(clause, col, " NOT IN ", f.Value)
	case "like":
		return b.like(clause, col, " LIKE ", f.Value)
	case "not_like":
		return b.like(clause, col, " NOT LIKE ", f.Value)
	case "is_null":
		return isNull(clause, col, " IS NULL", f.Value)
	case "is_not_null":
		return isNull(clause, col, " IS NOT NULL", f.Value)
	}
	return "", invalidColumn(f.Column, "%s: unknown op %q: want one of eq, neq, gt, gte, lt, lte, in, not_in, like, not_like, is_null, is_not_null", clause, excerpt.Of(f.Op))
}

func comparison(op string) (sql string, ok bool) {
	switch op {
	case "eq":
		return " = ", true
	case "neq":
		return " != ", true
	case "gt":
		return " > ", true
	case "gte":
		return " >= ", true
	case "lt":
		return " < ", true
	case "lte":
		return " <= ", true
	}
	return "", false
}

func (b *builder) compare(clause string, col column, op string, value json.RawMessage) (string, *Error) {
	if err := present(clause, col, value); err != nil {
		return "", err
	}
	typ, text, err := scalar(clause, col, value)
	if err == nil {
		return b.bind(clause, col, op, typ, text)
	}
	if t, finer := finerThanColumn(col, value); finer && col.codec != nil {
		return b.compareFiner(clause, col, op, t)
	}
	return "", err
}

// compareFiner compares a column of times with one between two of its values.
// It is compared with the value before, at the column's own precision: at a
// finer one ClickHouse fails when it meets a time far away.
func (b *builder) compareFiner(clause string, col column, op string, t time.Time) (string, *Error) {
	switch op {
	case " = ":
		return "0", nil
	case " != ":
		return col.sql + " IS NOT NULL", nil
	case " >= ":
		op = " > "
	case " < ":
		op = " <= "
	}
	precision := col.typ.Precision
	if col.typ.Kind == coltype.DateTime {
		precision = 0
	}
	before := t.Add(-time.Duration(modulo(int64(t.Nanosecond()), int64(tick(precision)))))
	return b.bind(clause, col, op, timestampType(precision), timestampText(before, precision))
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
	if err := comparableColumn(clause, col); err != nil {
		return "", err
	}
	var items []json.RawMessage
	if faults := strictjson.Decode(value, &items); len(value) == 0 || len(faults) > 0 {
		return "", invalidColumn(col.name, "%s: want an array of values", clause)
	}
	return b.memberOf(clause, col, op, items)
}

// memberOf compiles a list that has been taken apart.
func (b *builder) memberOf(clause string, col column, op string, items []json.RawMessage) (string, *Error) {
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
			return "", refused(fmt.Sprintf("%s: value %d", clause, i+1), col, err)
		}
		rows = encoded
	}
	return col.sql + op + "(SELECT v FROM " + b.values.table(col.stored, rows) + ")", nil
}

// like compiles like and not_like; a pattern is a text and nothing else.
func (b *builder) like(clause string, col column, op string, value json.RawMessage) (string, *Error) {
	if err := present(clause, col, value); err != nil {
		return "", err
	}
	if col.typ.Kind != coltype.String && col.typ.Kind != coltype.FixedString {
		return "", invalidColumn(col.name, "%s: like compares text, and the column %q is %s", clause, excerpt.Of(col.name), col.plain)
	}
	pattern, ok := text(value)
	if !ok {
		return "", invalidColumn(col.name, "%s: the pattern must be a string", clause)
	}
	if policy.EndsInEscape(pattern) {
		return "", invalidColumn(col.name, `%s: the pattern ends in a \ that escapes nothing: write \\ for one that means itself`, clause)
	}
	return b.bind(clause, col, op, "String", pattern)
}

// matches reports whether the operator takes a pattern, which ClickHouse
// compiles when it meets the first value.
func matches(op string) bool { return op == "like" || op == "not_like" }

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
