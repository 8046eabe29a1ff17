package query

import (
	"strconv"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// ratio is the aggregation that divides two others. It computes nothing itself,
// so a role that may use its parts may use it.
const ratio = "ratio"

// ratio divides as Float64 and is null where the divisor is zero or null.
func (b *builder) ratio(clause string, a *Aggregation) (string, *Error) {
	if a.Column != "" || a.By != "" || len(a.Params) > 0 || a.Where != nil {
		return "", invalid("%s: a ratio has a numerator and a denominator, which have what other aggregations have", clause)
	}
	above, err := b.part(clause+".numerator", a.Numerator)
	if err != nil {
		return "", err
	}
	below, err := b.part(clause+".denominator", a.Denominator)
	if err != nil {
		return "", err
	}
	if a.Scale != "" {
		scale, err := strconv.ParseFloat(a.Scale.String(), 64)
		if err != nil {
			return "", invalid("%s.scale: %s is no number that a Float64 holds", clause, excerpt.Of(a.Scale.String()))
		}
		above += " * " + decimalPoint(scale)
	}
	return "(" + above + " / nullIf(" + below + ", 0))", nil
}

// part compiles one side of a ratio.
func (b *builder) part(clause string, a *Aggregation) (string, *Error) {
	switch {
	case a == nil:
		return "", invalid("%s: a ratio needs one", clause)
	case a.Fn == ratio:
		return "", invalid("%s: a ratio has no ratio in it", clause)
	case a.Alias != "":
		return "", invalid("%s: the alias is that of the ratio; its parts have none", clause)
	}
	sql, err := b.aggregate(clause, a)
	if err != nil {
		return "", err
	}
	if typ := b.resultType(a); typ.Kind != coltype.Other && !numeric(typ.Kind) {
		return "", invalid("%s: %s of this column is %s, which is no number to divide", clause, a.Fn, typ.Text)
	}
	return "toFloat64(" + sql + ")", nil
}
