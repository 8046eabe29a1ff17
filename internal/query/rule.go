package query

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// ruleFault is what a caller is told of a rule that does not fit the table.
const ruleFault = "this role's row filter does not fit the table, so it may read no row of it; an administrator must correct the policy"

// RowRule returns the condition that the grant's row rule adds to every query
// of the table, and its parameters; "" is no condition. Lists of the rule are
// part of the text, as values in parentheses. The error is an *Error.
func RowRule(table *schema.Table, grant *policy.BoundSelect) (sql string, params map[string]string, err error) {
	b := newBuilder(&Document{}, table, grant, Options{})
	if fault := b.rowRule(); fault != nil {
		return "", nil, fault
	}
	return strings.Join(texts(b.where), " AND "), b.values.params, nil
}

// rowRule adds the grant's row rule to WHERE, before anything of the caller's.
// Its columns are qualified as all others are, so that no output of the
// caller's can stand for one of them.
func (b *builder) rowRule() *Error {
	if b.cols.grant.Fault() != nil {
		return &Error{Code: CodeColumnNotAllowed, Message: ruleFault}
	}
	predicate, none := b.cols.grant.Rows()
	switch {
	case none:
		b.where = append(b.where, condition{sql: "0"})
	case predicate != nil:
		sql, err := b.rule(predicate)
		if err != nil {
			return err
		}
		b.where, b.ruled = append(b.where, condition{sql: sql}), true
	}
	return nil
}

func (b *builder) rule(p *policy.Predicate) (string, *Error) {
	switch p.Op {
	case policy.OpAnd:
		return b.joined(p.Args, " AND ")
	case policy.OpOr:
		return b.joined(p.Args, " OR ")
	case policy.OpNot:
		sql, err := b.rule(&p.Args[0])
		return "NOT " + sql, err
	}
	index, ok := b.cols.table.Record.Lookup(p.Column)
	if !ok || b.cols.table.Record.Columns()[index].Type != p.Type {
		return "", &Error{Code: CodeColumnNotAllowed, Message: ruleFault}
	}
	sql, err := b.ruleCondition(b.cols.compile(index), p)
	return "(" + sql + ")", err
}

func (b *builder) joined(args []policy.Predicate, word string) (string, *Error) {
	parts := make([]string, len(args))
	for i := range args {
		var err *Error
		if parts[i], err = b.rule(&args[i]); err != nil {
			return "", err
		}
	}
	return "(" + strings.Join(parts, word) + ")", nil
}

func (b *builder) ruleCondition(col column, p *policy.Predicate) (string, *Error) {
	const clause = "the row filter"
	switch p.Op {
	case policy.OpIsNull:
		return col.sql + " IS NULL", nil
	case policy.OpIsNotNull:
		return col.sql + " IS NOT NULL", nil
	case policy.OpLike:
		sql, err := b.like(clause, col, " LIKE ", p.Values[0])
		// Text that is no text fits no pattern, which LIKE leaves undefined.
		return sql + " AND isValidUTF8(" + col.sql + ")", err
	case policy.OpIn:
		return b.ruleMember(clause, col, p.Values, " IN ")
	case policy.OpNin:
		return b.ruleMember(clause, col, p.Values, " NOT IN ")
	}
	sql, err := b.compare(clause, col, ruleComparison(p.Op), p.Values[0])
	return definite(col, sql), err
}

func ruleComparison(op policy.Op) string {
	switch op {
	case policy.OpNeq:
		return " != "
	case policy.OpGt:
		return " > "
	case policy.OpGte:
		return " >= "
	case policy.OpLt:
		return " < "
	case policy.OpLte:
		return " <= "
	}
	return " = "
}

// definite makes a condition NULL for the values that compare with nothing.
// ClickHouse's own answer for NaN differs between operators, and between an
// operator and its negation.
func definite(col column, sql string) string {
	if col.typ.Kind == coltype.Float {
		return "if(isNaN(" + col.sql + "), NULL, " + sql + ")"
	}
	return sql
}

// ruleMember compiles a list. A float is looked up by its value, not by its
// bits, of which zero has two.
func (b *builder) ruleMember(clause string, col column, list []json.RawMessage, op string) (string, *Error) {
	if col.typ.Kind != coltype.Float {
		sql, err := b.memberOf(clause, col, op, list)
		if col.stored != col.plain {
			sql = "if(" + col.sql + " IS NULL, NULL, " + sql + ")"
		}
		return sql, err
	}
	parts := make([]string, len(list))
	for i, value := range list {
		// Not written as equalities: ClickHouse makes a list of three, and
		// looks for bits in it.
		clause := clause + ": value " + strconv.Itoa(i+1)
		from, err := b.compare(clause, col, " >= ", value)
		if err != nil {
			return "", err
		}
		to, err := b.compare(clause, col, " <= ", value)
		if err != nil {
			return "", err
		}
		parts[i] = from + " AND " + to
	}
	sql := "(" + strings.Join(parts, " OR ") + ")"
	if op == " NOT IN " {
		sql = "NOT " + sql
	}
	return definite(col, sql), nil
}
