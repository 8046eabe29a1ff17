package query

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/policy"
)

// maxLevels bounds the levels of one quantiles aggregation.
const maxLevels = 100

// functions maps an aggregation to the ClickHouse function that computes it.
// Its keys are policy.Aggregations.
var functions = map[string]string{
	"any":            "any",
	"avg":            "avg",
	"count":          "count",
	"count_distinct": "uniqExact",
	"max":            "max",
	"median":         "median",
	"min":            "min",
	"quantile":       "quantile",
	"quantiles":      "quantiles",
	"stddev_pop":     "stddevPop",
	"stddev_samp":    "stddevSamp",
	"sum":            "sum",
	"uniq":           "uniq",
	"var_pop":        "varPop",
	"var_samp":       "varSamp",
}

// aggregation compiles one aggregation to an output.
func (b *builder) aggregation(clause string, a Aggregation) (output, *Error) {
	function, known := functions[a.Fn]
	if !known {
		return output{}, unknownAggregation(clause, a.Fn)
	}
	if !b.cols.grant.AllowsAggregation(a.Fn) {
		return output{}, &Error{
			Code: CodeAggregationNotAllowed, Column: a.Column,
			Message: fmt.Sprintf("%s: this role may not use the aggregation %q", clause, a.Fn),
		}
	}
	params, err := levels(clause, a)
	if err != nil {
		return output{}, err
	}
	argument, err := b.argument(clause, a)
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
	return output{name: name, sql: function + params + "(" + argument + ")"}, nil
}

// argument is the column that is aggregated; only count does without one.
func (b *builder) argument(clause string, a Aggregation) (string, *Error) {
	if a.Column == "" || a.Column == policy.AllTables {
		if a.Fn == "count" {
			return "", nil
		}
		return "", invalid("%s: %s needs a column", clause, a.Fn)
	}
	col, err := b.cols.lookup(clause, a.Column)
	if err != nil {
		return "", err
	}
	if arithmetic(a.Fn) && !numeric(col.typ.Kind) {
		return "", invalidColumn(a.Column, "%s: %s needs a column of numbers, and %q is %s", clause, a.Fn, excerpt.Of(a.Column), col.plain)
	}
	return col.sql, nil
}

// arithmetic reports whether the aggregation is one of numbers.
func arithmetic(fn string) bool {
	switch fn {
	case "sum", "avg", "stddev_pop", "stddev_samp", "var_pop", "var_samp":
		return true
	}
	return false
}

// numeric reports whether ClickHouse adds up values of the kind. A type that
// the grammar does not know is ClickHouse's to judge.
func numeric(kind coltype.Kind) bool {
	switch kind {
	case coltype.Int, coltype.UInt, coltype.Float, coltype.BFloat16, coltype.Decimal, coltype.Bool,
		coltype.Interval, coltype.Other:
		return true
	}
	return false
}

// levels renders the parameters of quantile and quantiles. They are constants
// to ClickHouse, so they are written as the numbers they were read as.
func levels(clause string, a Aggregation) (string, *Error) {
	most := 0
	switch a.Fn {
	case "quantile":
		most = 1
	case "quantiles":
		most = maxLevels
	}
	if len(a.Params) > most || (most > 0 && len(a.Params) == 0) {
		return "", invalid("%s: %s %s", clause, a.Fn, wantParams(most))
	}
	if most == 0 {
		return "", nil
	}
	texts := make([]string, len(a.Params))
	for i, p := range a.Params {
		level, err := strconv.ParseFloat(p.String(), 64)
		if err != nil || level < 0 || level > 1 {
			return "", invalid("%s: the level %s is not between 0 and 1", clause, excerpt.Of(p.String()))
		}
		texts[i] = levelText(level)
	}
	return "(" + strings.Join(texts, ", ") + ")", nil
}

// levelText keeps a point in the number: ClickHouse takes no whole ones here.
func levelText(level float64) string {
	text := strconv.FormatFloat(level, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func wantParams(most int) string {
	switch most {
	case 0:
		return "takes no params"
	case 1:
		return "takes one level between 0 and 1 as its params: [0.95]"
	}
	return fmt.Sprintf("takes 1 to %d levels between 0 and 1 as its params: [0.5, 0.95]", most)
}

// defaultAlias names an output that its caller did not name: "count", "sum_n".
func defaultAlias(a Aggregation) string {
	if a.Column == "" || a.Column == policy.AllTables {
		return a.Fn
	}
	return a.Fn + "_" + a.Column
}

func unknownAggregation(clause, fn string) *Error {
	hint := "want one of " + strings.Join(policy.Aggregations(), ", ")
	if near, ok := nearest.Name(fn, policy.Aggregations()); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return invalid("%s: unknown aggregation %q: %s", clause, excerpt.Of(fn), hint)
}
