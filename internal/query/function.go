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
	// of are the columns that it takes.
	of operands
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
	"avg":              {sql: "avg", of: numbers},
	"count":            {sql: "count"},
	"count_distinct":   {sql: "uniqExact"},
	"group_array":      {sql: "groupArray", params: parameters{size: true, fallback: 100, most: 10_000}},
	"group_uniq_array": {sql: "groupUniqArray", params: parameters{size: true, fallback: 100, most: 10_000}},
	"histogram":        {sql: "histogram", of: numbers, params: parameters{size: true, fallback: 10, most: 250}},
	"max":              {sql: "max", value: true},
	"median":           {sql: "median", of: measures, value: true},
	"min":              {sql: "min", value: true},
	"quantile":         {sql: "quantile", of: measures, value: true, params: parameters{levels: 1}},
	"quantiles":        {sql: "quantiles", of: measures, params: parameters{levels: maxLevels}},
	"stddev_pop":       {sql: "stddevPop", of: numbers},
	"stddev_samp":      {sql: "stddevSamp", of: numbers},
	"sum":              {sql: "sum", of: numbers},
	"top_k":            {sql: "topK", params: parameters{size: true, fallback: 10, most: 1_000}},
	"uniq":             {sql: "uniq"},
	"var_pop":          {sql: "varPop", of: numbers},
	"var_samp":         {sql: "varSamp", of: numbers},
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
			return "", invalid("%s: the level %s is not between 0 and 1; 0.95 is the 95th percentile", clause, excerpt.Of(param.String()))
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

// operands are columns that an aggregation takes; the zero value is any.
type operands uint8

const (
	numbers operands = iota + 1
	// measures are what lies between two values: ClickHouse's quantiles know fewer
	// types than its sums do, and no Date32.
	measures
)

// has reports whether a column of the kind is one of them.
func (o operands) has(kind coltype.Kind) bool {
	switch o {
	case numbers:
		return numeric(kind)
	case measures:
		switch kind {
		case coltype.BFloat16, coltype.Interval:
			return false
		case coltype.Date, coltype.DateTime, coltype.DateTime64:
			return true
		}
		return numeric(kind)
	}
	return true
}

func (o operands) String() string {
	if o == measures {
		return "whole numbers, floats, decimals or times (Date, DateTime or DateTime64)"
	}
	return "numbers"
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
