package policy

import (
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/record"
)

// whenAbsent evaluates a condition for rows that were sent without the column:
// ClickHouse stores its default, which is known here when it is a constant
// that can be read only one way.
func whenAbsent(p *Predicate, c column) outcome {
	value, ok := constantDefault(c)
	if !ok || p.opaque {
		return undecided
	}
	encoded, err := c.codec.AppendJSON(nil, value)
	if err != nil {
		return undecided
	}
	return p.holds(c.codec, encoded)
}

// constantDefault returns the column's default as JSON.
func constantDefault(c column) (value []byte, ok bool) {
	switch c.DefaultKind {
	case record.DefaultNone:
		return zero(c.typ)
	case record.DefaultExpression:
		return constant(c.typ, strings.TrimSpace(c.DefaultExpression))
	}
	return nil, false
}

// zero is what a column without a default holds.
func zero(t coltype.Type) ([]byte, bool) {
	if t.AcceptsNull() {
		return []byte("null"), true
	}
	switch t.Plain().Kind {
	case coltype.Int, coltype.UInt, coltype.Float, coltype.Decimal:
		return []byte("0"), true
	case coltype.Bool:
		return []byte("false"), true
	case coltype.String:
		return []byte(`""`), true
	}
	return nil, false
}

// constant reads a default that is written as a value of the column's type.
func constant(t coltype.Type, expression string) ([]byte, bool) {
	if expression == "NULL" && t.AcceptsNull() {
		return []byte("null"), true
	}
	switch t.Plain().Kind {
	case coltype.Int, coltype.UInt:
		digits := strings.TrimPrefix(expression, "-")
		return []byte(expression), digits != "" && strings.Trim(digits, "0123456789") == ""
	case coltype.Bool:
		return []byte(expression), expression == "true" || expression == "false"
	case coltype.String:
		inside := len(expression) >= 2 && strings.HasPrefix(expression, "'") && strings.HasSuffix(expression, "'")
		if !inside || strings.ContainsAny(expression[1:len(expression)-1], `'\`) {
			return nil, false
		}
		return record.AppendJSONString(nil, expression[1:len(expression)-1]), true
	}
	return nil, false
}
