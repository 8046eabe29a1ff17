package query

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// function is the ClickHouse function that computes an aggregation, and what
// it takes.
type function struct {
	sql    string
	params parameters
	// arithmetic: it is one of a column of numbers.
	arithmetic bool
	// by: it takes a second column, whose greatest or least value decides.
	by bool
	// orNull: of no rows it is null. What is not is zero, empty or NaN.
	orNull bool
	// value: of rows it is one of the column's values, so of no rows that a
	// condition lets through it is null as well.
	value bool
}

// functions are the aggregations by name. Its keys are policy.Aggregations.
var functions = map[string]function{
	"any":              {sql: "any", value: true},
	"any_last":         {sql: "anyLast", value: true, orNull: true},
	"arg_max":          {sql: "argMax", by: true, value: true, orNull: true},
	"arg_min":          {sql: "argMin", by: true, value: true, orNull: true},
	"avg":              {sql: "avg", arithmetic: true},
	"count":            {sql: "count"},
	"count_distinct":   {sql: "uniqExact"},
	"group_array":      {sql: "groupArray", params: parameters{size: true, fallback: 100, most: 10_000}},
	"group_uniq_array": {sql: "groupUniqArray", params: parameters{size: true, fallback: 100, most: 10_000}},
	"histogram":        {sql: "histogram", arithmetic: true, params: parameters{size: true, fallback: 10, most: 250}},
	"max":              {sql: "max", value: true},
	"median":           {sql: "median", value: true},
	"min":              {sql: "min", value: true},
	"quantile":         {sql: "quantile", value: true, params: parameters{levels: 1}},
	"quantiles":        {sql: "quantiles", params: parameters{levels: maxLevels}},
	"stddev_pop":       {sql: "stddevPop", arithmetic: true},
	"stddev_samp":      {sql: "stddevSamp", arithmetic: true},
	"sum":              {sql: "sum", arithmetic: true},
	"top_k":            {sql: "topK", params: parameters{size: true, fallback: 10, most: 1_000}},
	"uniq":             {sql: "uniq"},
	"var_pop":          {sql: "varPop", arithmetic: true},
	"var_samp":         {sql: "varSamp", arithmetic: true},
}

// maxLevels bounds the levels of one quantiles aggregation.
const maxLevels = 100

// parameters is what stands in an aggregation's params: levels, or how many
// values an array has.
type parameters struct {
	levels int // the most
	size   bool
	// fallback is the size of an array whose caller named none.
	fallback, most int
}

// render reads params. They are constants to ClickHouse, so they are written
// as the numbers they were read as.
func (p parameters) render(clause string, a *Aggregation) (string, *Error) {
	switch {
	case p.levels > 0:
		return p.renderLevels(clause, a)
	case p.size:
		return p.renderSize(clause, a)
	case len(a.Params) > 0:
		return "", invalid("%s: %s takes no params", clause, a.Fn)
	}
	return "", nil
}

func (p parameters) renderLevels(clause string, a *Aggregation) (string, *Error) {
	if len(a.Params) == 0 || len(a.Params) > p.levels {
		want := "one level between 0 and 1 as its params: [0.95]"
		if p.levels > 1 {
			want = fmt.Sprintf("1 to %d levels between 0 and 1 as its params: [0.5, 0.95]", p.levels)
		}
		return "", invalid("%s: %s takes %s", clause, a.Fn, want)
	}
	texts := make([]string, len(a.Params))
	for i, param := range a.Params {
		level, err := strconv.ParseFloat(param.String(), 64)
		if err != nil || level < 0 || level > 1 {
			return "", invalid("%s: the level %s is not between 0 and 1", clause, excerpt.Of(param.String()))
		}
		texts[i] = decimalPoint(level)
	}
	return "(" + strings.Join(texts, ", ") + ")", nil
}

// decimalPoint keeps a point in the number: ClickHouse takes no whole ones as
// levels, and knows no whole ones of 300 digits.
func decimalPoint(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func (p parameters) renderSize(clause string, a *Aggregation) (string, *Error) {
	size := p.fallback
	if len(a.Params) > 0 {
		n, err := strconv.Atoi(a.Params[0].String())
		if err != nil || n < 1 || n > p.most || len(a.Params) > 1 {
			return "", invalid("%s: %s takes one whole number from 1 to %d as its params, or none for %d", clause, a.Fn, p.most, p.fallback)
		}
		size = n
	}
	return "(" + strconv.Itoa(size) + ")", nil
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
