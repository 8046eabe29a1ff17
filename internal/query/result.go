package query

import (
	"fmt"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// resultType is the type of what a compiled aggregation answers, without its
// Nullable. Its kind is Other when only ClickHouse knows it.
func (b *builder) resultType(a *Aggregation) coltype.Type {
	var of coltype.Type
	text := "Float64"
	if a.Column != "" {
		if col, err := b.cols.lookup("", a.Column); err == nil {
			of = col.typ
		}
	}
	switch a.Fn {
	case "count", "count_distinct", "uniq":
		text = "UInt64"
	case "sum":
		text = sumType(of)
	case "any", "any_last", "arg_max", "arg_min", "min", "max":
		text = of.Text
	case "median", "quantile":
		text = quantileType(of)
	case "quantiles":
		text = "Array(" + quantileType(of) + ")"
	case "group_array", "group_uniq_array", "top_k":
		text = "Array(" + of.Text + ")"
	case "histogram":
		text = "Array(" + binType + ")"
	}
	return typeOf(text)
}

// typeOf parses a type. Of what is none the kind is Other, which compares with
// nothing.
func typeOf(text string) coltype.Type {
	typ, err := coltype.Parse(text)
	if err != nil {
		return coltype.Type{Text: text}
	}
	return typ
}

// binType is the type of one bin of a histogram.
const binType = "Tuple(lower Float64, upper Float64, count Float64)"

// sumType is the type that ClickHouse adds up values of a type in.
func sumType(of coltype.Type) string {
	bits := max(of.Bits, 64)
	switch of.Kind {
	case coltype.Int:
		return fmt.Sprintf("Int%d", bits)
	case coltype.UInt:
		return fmt.Sprintf("UInt%d", bits)
	case coltype.Bool:
		return "UInt64"
	case coltype.Decimal:
		precision := 38
		if of.Precision > precision {
			precision = 76
		}
		return fmt.Sprintf("Decimal(%d, %d)", precision, of.Scale)
	case coltype.Float, coltype.BFloat16:
		return "Float64"
	}
	return of.Text
}

// quantileType is the type of a quantile of values of a type.
func quantileType(of coltype.Type) string {
	switch of.Kind {
	case coltype.Int, coltype.UInt, coltype.Bool, coltype.Float, coltype.BFloat16:
		return "Float64"
	}
	return of.Text
}
