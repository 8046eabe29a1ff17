package query

import (
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/policy"
)

// aggregation compiles one aggregation to an output.
func (b *builder) aggregation(clause string, a *Aggregation) (output, *Error) {
	var sql string
	var err *Error
	if a.Fn == ratio {
		sql, err = b.ratio(clause, a)
	} else {
		sql, err = b.aggregate(clause, a)
	}
	if err != nil {
		return output{}, err
	}
	name := a.Alias
	if name == "" {
		name = defaultAlias(a)
	}
	if len(name) > maxNameLen {
		return output{}, invalid("%s: the alias is longer than %d bytes", clause, maxNameLen)
	}
	return output{name: name, sql: sql, of: a}, nil
}

// aggregate compiles the call of one function.
func (b *builder) aggregate(clause string, a *Aggregation) (string, *Error) {
	f, known := functions[a.Fn]
	if !known {
		return "", unknownAggregation(clause, a.Fn)
	}
	if !b.cols.grant.AllowsAggregation(a.Fn) {
		return "", &Error{
			Code: CodeAggregationNotAllowed, Column: a.Column,
			Message: fmt.Sprintf("%s: this role may not use the aggregation %q", clause, a.Fn),
		}
	}
	if a.Numerator != nil || a.Denominator != nil {
		return "", invalid("%s: numerator and denominator are those of a %s, not of %s", clause, ratio, a.Fn)
	}
	params, err := f.params.render(clause, a)
	if err != nil {
		return "", err
	}
	args, only, err := b.arguments(clause, a, f)
	if err != nil {
		return "", err
	}
	return f.call(params, args, only), nil
}

// call writes the function over the rows for which all of only holds.
func (f function) call(params string, args, only []string) string {
	name := f.sql
	if f.orNull || f.value && len(only) > 0 {
		name += "OrNull"
	}
	if len(only) > 0 {
		name += "If"
		args = append(args, strings.Join(only, " AND "))
	}
	sql := name + params + "(" + strings.Join(args, ", ") + ")"
	if f.sql == "histogram" {
		return "CAST(" + sql + ", 'Array(" + binType + ")')"
	}
	return sql
}

// arguments are the columns of a function, and what must hold of a row that it
// is to see.
func (b *builder) arguments(clause string, a *Aggregation, f function) (args, only []string, fault *Error) {
	col, all, err := b.argument(clause, a, f)
	if err != nil {
		return nil, nil, err
	}
	if !all {
		args = append(args, col.shown())
	}
	if f.sql == "histogram" {
		args[0], only = bins(col)
	}
	switch {
	case f.by && a.By == "":
		return nil, nil, invalid(`%s: %s needs "by", the column whose value decides`, clause, a.Fn)
	case f.by:
		by, err := b.cols.lookup(clause+".by", a.By)
		if err == nil && by.untyped {
			err = unordered(clause+".by", a.By)
		}
		if err != nil {
			return nil, nil, err
		}
		args = append(args, by.sql)
	case a.By != "":
		return nil, nil, invalid(`%s: %s takes no "by"`, clause, a.Fn)
	}
	if len(a.Where) == 0 && b.during == nil {
		return args, only, nil
	}
	conditions, err := b.conditionsOf(clause+".where", a.Where, b.cols.lookup)
	if b.during != nil {
		conditions = append(conditions, *b.during)
	}
	b.judgedLater(conditions)
	return args, append(only, texts(conditions)...), err
}

// argument is the column that is aggregated; all says that there is none, which
// only count does without.
func (b *builder) argument(clause string, a *Aggregation, f function) (col column, all bool, fault *Error) {
	if a.Column == "" || a.Column == policy.AllTables {
		if a.Fn == "count" {
			return col, true, nil
		}
		return col, false, invalid("%s: %s needs a column", clause, a.Fn)
	}
	if col, fault = b.cols.lookup(clause, a.Column); fault != nil {
		return col, false, fault
	}
	if col.untyped && a.Fn != "count" {
		return col, false, unordered(clause, a.Column)
	}
	if !f.of.has(col.typ.Kind) {
		return col, false, invalidColumn(a.Column, "%s: %s needs a column of %s, and %q is %s", clause, a.Fn, f.of, excerpt.Of(a.Column), col.plain)
	}
	return col, false, nil
}

// bins is what histogram sees of a column: ClickHouse's function knows no
// decimals, and fails on what has no place between two bounds.
func bins(col column) (arg string, only []string) {
	switch col.typ.Kind {
	case coltype.Decimal, coltype.BFloat16, coltype.Bool:
		arg = "toFloat64(" + col.sql + ")"
	default:
		arg = col.sql
	}
	if col.typ.Kind == coltype.Float || col.typ.Kind == coltype.BFloat16 {
		only = []string{"isFinite(" + arg + ")"}
	}
	return arg, only
}

// defaultAlias names an output that its caller did not name: "count", "sum_n".
func defaultAlias(a *Aggregation) string {
	if a.Column == "" || a.Column == policy.AllTables {
		return a.Fn
	}
	return a.Fn + "_" + a.Column
}

// otherNames are what aggregations are called elsewhere.
var otherNames = map[string]string{
	"average": "avg", "mean": "avg", "percentile": "quantile", "percentiles": "quantiles", "distinct": "count_distinct", "unique": "count_distinct",
	"cardinality": "uniq", "first": "any", "last": "any_last", "total": "sum", "array_agg": "group_array",
	"stddev": "stddev_pop", "variance": "var_pop", "mode": "top_k",
}

func unknownAggregation(clause, fn string) *Error {
	meant, known := otherNames[strings.ToLower(fn)]
	if level, found := strings.CutPrefix(fn, "p"); found && level != "" && strings.Trim(level, "0123456789") == "" {
		meant, known = "quantile", true
	}
	if known {
		return invalid("%s: unknown aggregation %q; did you mean %q?", clause, excerpt.Of(fn), meant)
	}
	return invalid("%s: unknown aggregation %q%s", clause, excerpt.Of(fn), nearest.OneOf(fn, append(policy.Aggregations(), ratio)))
}
