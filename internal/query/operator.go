package query

import (
	"encoding/json"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
)

// operator is what a condition says of a column.
type operator struct {
	compile func(b *builder, clause string, col column, value json.RawMessage) (string, *Error)
	// mayFail: ClickHouse compiles the pattern when it meets the first value.
	mayFail bool
	// text: the operator is for texts alone.
	text bool
}

// operatorNames are the keys of operators, in the order of the manual.
const operatorNames = "eq neq gt gte lt lte between not_between in not_in like not_like ilike not_ilike " +
	"starts_with ends_with contains not_contains contains_any contains_all is_null is_not_null"

var operators = map[string]operator{
	"eq":           compares(" = "),
	"neq":          compares(" != "),
	"gt":           compares(" > "),
	"gte":          compares(" >= "),
	"lt":           compares(" < "),
	"lte":          compares(" <= "),
	"between":      {compile: (*builder).between},
	"not_between":  negated(operator{compile: (*builder).between}),
	"in":           lists(" IN "),
	"not_in":       lists(" NOT IN "),
	"like":         fits(" LIKE "),
	"not_like":     fits(" NOT LIKE "),
	"ilike":        {compile: (*builder).ilike, mayFail: true, text: true},
	"not_ilike":    negated(operator{compile: (*builder).ilike, mayFail: true, text: true}),
	"starts_with":  {compile: (*builder).startsWith, text: true},
	"ends_with":    {compile: (*builder).endsWith, text: true},
	"contains":     {compile: (*builder).contains},
	"not_contains": negated(operator{compile: (*builder).contains}),
	"contains_any": {compile: (*builder).containsAny},
	"contains_all": {compile: (*builder).containsAll},
	"is_null":      nulls(" IS NULL"),
	"is_not_null":  nulls(" IS NOT NULL"),
}

// symbols are operators as other languages write them.
var symbols = map[string]string{
	"=": "eq", "==": "eq", "!=": "neq", "<>": "neq", "ne": "neq", ">": "gt", ">=": "gte", "ge": "gte", "<": "lt", "<=": "lte", "le": "lte",
	"~": "like", "nin": "not_in", "not in": "not_in", "is null": "is_null", "is not null": "is_not_null",
}

func unknownOperator(clause string, f *Filter) *Error {
	if meant, known := symbols[strings.ToLower(f.Op)]; known {
		return invalidColumn(f.Column, "%s: unknown op %q; did you mean %q?", clause, excerpt.Of(f.Op), meant)
	}
	return invalidColumn(f.Column, "%s: unknown op %q%s", clause, excerpt.Of(f.Op), nearest.OneOf(f.Op, strings.Fields(operatorNames)))
}

func compares(sql string) operator {
	return operator{compile: func(b *builder, clause string, col column, value json.RawMessage) (string, *Error) {
		return b.compare(clause, col, sql, value)
	}}
}

func lists(sql string) operator {
	return operator{compile: func(b *builder, clause string, col column, value json.RawMessage) (string, *Error) {
		return b.member(clause, col, sql, value)
	}}
}

func fits(sql string) operator {
	return operator{mayFail: true, text: true, compile: func(b *builder, clause string, col column, value json.RawMessage) (string, *Error) {
		return b.like(clause, col, sql, value)
	}}
}

func nulls(sql string) operator {
	return operator{compile: func(_ *builder, clause string, col column, value json.RawMessage) (string, *Error) {
		return isNull(clause, col, sql, value)
	}}
}

// negated is NULL where the operator is.
func negated(op operator) operator {
	compile := op.compile
	op.compile = func(b *builder, clause string, col column, value json.RawMessage) (string, *Error) {
		sql, err := compile(b, clause, col, value)
		return "NOT " + sql, err
	}
	return op
}

// between compiles two bounds, both of which are included. Its SQL is in
// parentheses.
func (b *builder) between(clause string, col column, value json.RawMessage) (string, *Error) {
	bounds, err := listed(clause, col, value)
	if err != nil || len(bounds) != 2 {
		return "", invalidColumn(col.name, "%s: want two values, [low, high]", clause)
	}
	from, err := b.compare(clause+": the low value", col, " >= ", bounds[0])
	if err != nil {
		return "", err
	}
	to, err := b.compare(clause+": the high value", col, " <= ", bounds[1])
	return "(" + from + " AND " + to + ")", err
}
