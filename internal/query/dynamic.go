package query

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// maxUntypedList bounds a list that a JSON value without a type is compared with:
// each value is a comparison for each type that it may have.
const maxUntypedList = 100

// The types in which ClickHouse's reader of JSON keeps numbers and times.
func storedNumbers() []string { return []string{"Int64", "UInt64", "Float64"} }
func storedTimes() []string   { return []string{"DateTime", "DateTime64(9)"} }

// constant is a value to compare with, for stored values of some types.
type constant struct {
	stored    []string
	typ, text string
}

// compareUntyped compares a path of JSON that has no type with a value of a known
// kind. A stored value of another kind compares with nothing: NULL.
func (b *builder) compareUntyped(clause string, col column, op string, value json.RawMessage) (string, *Error) {
	if err := present(clause, col, value); err != nil {
		return "", err
	}
	constants, err := constantsOf(clause, col, value)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, c := range constants {
		name, err := b.values.bind(clause, c.text)
		if err != nil {
			return "", err
		}
		for _, stored := range c.stored {
			parts = append(parts, "dynamicElement("+col.sql+", '"+stored+"')"+op+"{"+name+":"+c.typ+"}")
		}
	}
	return "coalesce(" + strings.Join(parts, ", ") + ")", nil
}

// constantsOf reads a value by its kind in JSON. A text that is a date or a time
// is one too: so has ClickHouse read what was stored.
func constantsOf(clause string, col column, value json.RawMessage) ([]constant, *Error) {
	switch value[0] {
	case 't', 'f':
		return []constant{{stored: []string{"Bool"}, typ: "Bool", text: string(value)}}, nil
	case '"':
		s, ok := text(value)
		if !ok {
			return nil, invalidColumn(col.name, "%s: not a string", clause)
		}
		constants := []constant{{stored: []string{"String"}, typ: "String", text: s}}
		if t, err := time.Parse(time.DateOnly, s); err == nil && holds(t, 0) {
			constants = append(constants, constant{stored: []string{"Date"}, typ: "Date32", text: s})
		}
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil && holds(t, 9) {
			constants = append(constants, constant{stored: storedTimes(), typ: timestampType(9), text: timestampText(t, 9)})
		}
		return constants, nil
	case '[', '{':
		return nil, invalidColumn(col.name, "%s: a JSON value without a type is compared with a string, a number, true or false", clause)
	}
	return number(clause, col, string(value))
}

// number keeps every digit of a whole number of 64 bits; any other is a double, as
// ClickHouse has stored it.
func number(clause string, col column, digits string) ([]constant, *Error) {
	if _, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return []constant{{stored: storedNumbers(), typ: "Int64", text: digits}}, nil
	}
	if _, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return []constant{{stored: storedNumbers(), typ: "UInt64", text: digits}}, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.Trim(digits, "-0123456789") == "" {
		return nil, invalidColumn(col.name, "%s: %s is no number that a JSON value without a type can hold", clause, excerpt.Of(digits))
	}
	return []constant{{stored: storedNumbers(), typ: "Float64", text: strconv.FormatFloat(f, 'g', -1, 64)}}, nil
}

// memberUntyped compiles a list as one comparison for each value.
func (b *builder) memberUntyped(clause string, col column, op string, items []json.RawMessage) (string, *Error) {
	if len(items) > maxUntypedList {
		return "", invalidColumn(col.name, "%s: %d values are more than the %d that a JSON value without a type is compared with: declare the path's type in the column", clause, len(items), maxUntypedList)
	}
	parts := []string{"0"}
	for i, item := range items {
		sql, err := b.compareUntyped(clause+": value "+strconv.Itoa(i+1), col, " = ", item)
		if err != nil {
			return "", err
		}
		parts = append(parts, sql)
	}
	sql := "(" + strings.Join(parts, " OR ") + ")"
	if op == " NOT IN " {
		sql = "NOT " + sql
	}
	return sql, nil
}

// asText is what a pattern is matched with: of a JSON value without a type, the
// texts.
func (c column) asText() column {
	if c.untyped {
		c.sql = "dynamicElement(" + c.sql + ", 'String')"
		c.typ, c.plain, c.stored = coltype.Type{Kind: coltype.String, Text: "String"}, "String", "Nullable(String)"
	}
	return c
}

// key is a value to group by, in which equal numbers are the same: ClickHouse
// keeps 1 and 1.0 of JSON apart.
func (c column) key() string {
	double := "dynamicElement(" + c.sql + ", 'Float64')"
	whole := "ifNull(" + double + " = trunc(" + double + ") AND abs(" + double + ") <= 9007199254740992, false)"
	return "if(" + whole + ", CAST(accurateCastOrNull(" + double + ", 'Int64'), 'Dynamic'), " + c.sql + ")"
}

// unordered refuses what needs values of one type.
func unordered(clause, name string) *Error {
	return invalidColumn(name, "%s: %q is a path of JSON that has no type, by which rows are not ordered and values not aggregated, only counted: declare it in the column, as in JSON(path String)",
		clause, excerpt.Of(name))
}

// read puts a column out. Where rows become one by it, values that are equal are
// the same.
func (b *builder) read(name string, col column) output {
	out := output{name: name, sql: col.shown(), untyped: col.untyped}
	if col.untyped && (b.aggregates() || b.doc.Distinct) {
		out.sql = col.key()
	}
	return out
}
