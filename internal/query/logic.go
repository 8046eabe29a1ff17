package query

import (
	"strconv"
	"strings"
)

// Bounds of the conditions of one document, in all of its clauses together.
const (
	maxConditionDepth = 16    // groups inside of each other
	maxConditions     = 1_000 // conditions and groups
)

// lookup finds what a condition is about by its name: a column, or what a
// clause has instead of columns.
type lookup func(clause, name string) (column, *Error)

// conditionsOf compiles a list of conditions, all of which must hold.
func (b *builder) conditionsOf(clause string, filters []Filter, find lookup) ([]condition, *Error) {
	return b.each(clause, filters, find, 0)
}

// each compiles the entries of a list, depth groups below the clause.
func (b *builder) each(clause string, filters []Filter, find lookup, depth int) ([]condition, *Error) {
	compiled := make([]condition, len(filters))
	for i := range filters {
		var err *Error
		if compiled[i], err = b.entry(clause+"["+strconv.Itoa(i)+"]", &filters[i], find, depth); err != nil {
			return nil, err
		}
	}
	return compiled, nil
}

// entry compiles one condition, or a group with what is below it. A group may
// fail where any part of it may.
func (b *builder) entry(clause string, f *Filter, find lookup, depth int) (condition, *Error) {
	if b.judged++; b.judged > maxConditions {
		return condition{}, invalid("%s: a query may have %d conditions and groups of them, and this is one more", clause, maxConditions)
	}
	if f.And == nil && f.Or == nil && f.Not == nil && f.Column+f.Op != "" {
		return b.condition(clause, f, find)
	}
	if err := oneOf(clause, f); err != nil {
		return condition{}, err
	}
	if depth++; depth > maxConditionDepth {
		return condition{}, invalid("%s: groups of conditions may be nested %d deep", clause, maxConditionDepth)
	}
	switch {
	case f.And != nil:
		parts, err := b.each(clause+".and", *f.And, find, depth)
		if err != nil || len(parts) == 0 {
			return condition{sql: "1"}, err
		}
		return grouped(parts, " AND "), nil
	case f.Or != nil:
		if len(*f.Or) == 0 {
			return condition{}, invalid(`%s.or: an empty list, of which nothing can hold: leave the group out, or name a condition`, clause)
		}
		parts, err := b.each(clause+".or", *f.Or, find, depth)
		return grouped(parts, " OR "), err
	}
	part, err := b.entry(clause+".not", f.Not, find, depth)
	part.sql = "NOT (" + part.sql + ")"
	return part, err
}

// oneOf refuses a group that is something else as well, and an entry that is
// nothing.
func oneOf(clause string, f *Filter) *Error {
	said := 0
	for _, there := range [...]bool{f.And != nil, f.Or != nil, f.Not != nil, f.Column+f.Op != ""} {
		if there {
			said++
		}
	}
	if said == 1 && len(f.Value) == 0 {
		return nil
	}
	return invalid("%s: want exactly one of column (with its op), and, or, not", clause)
}

func grouped(parts []condition, word string) condition {
	whole := condition{sql: "(" + strings.Join(texts(parts), word) + ")"}
	for _, part := range parts {
		whole.mayFail = whole.mayFail || part.mayFail
	}
	return whole
}

// condition compiles an entry that is no group.
func (b *builder) condition(clause string, f *Filter, find lookup) (condition, *Error) {
	col, err := find(clause, f.Column)
	if err != nil {
		return condition{}, err
	}
	op, known := operators[f.Op]
	if !known {
		return condition{}, unknownOperator(clause, f)
	}
	if op.text {
		col = col.asText()
	}
	sql, err := op.compile(b, clause, col, f.Value)
	return condition{sql: sql, mayFail: col.computed || op.mayFail}, err
}
