package query

import (
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// Output is a column of an answer: its name, and its type as ClickHouse names it.
type Output struct{ Name, Type string }

// Columnar reports whether the format holds typed columns.
func (f Format) Columnar() bool { return f == FormatArrow || f == FormatParquet }

// Portable returns the statement, which must be one that may stand in parentheses,
// with its outputs in types that every reader of Arrow and Parquet knows. Left as
// it is, ClickHouse gives the number of an Enum, seconds without a unit for a
// DateTime, and bytes for what is wider than 64 bits, and some types not at all.
func Portable(statement string, outputs []Output) string {
	seen := make(map[string]bool, len(outputs))
	var replaced []string
	for _, out := range outputs {
		if seen[out.Name] {
			return statement // two columns that no name tells apart
		}
		seen[out.Name] = true
		t, err := coltype.Parse(out.Type)
		if err != nil {
			continue
		}
		name := clickhouse.QuoteIdent(out.Name)
		if t.Kind == coltype.AggregateFunction {
			replaced = append(replaced, "hex("+name+") AS "+name)
		} else if text, changed := portable(t); changed {
			replaced = append(replaced, fmt.Sprintf("CAST(%s AS %s) AS %s", name, text, name))
		}
	}
	if len(replaced) == 0 {
		return statement
	}
	return "SELECT * REPLACE (" + strings.Join(replaced, ", ") + ") FROM (\n" + statement + "\n)"
}

// portable returns the type in the place of t, and whether it is another.
func portable(t coltype.Type) (text string, changed bool) {
	switch t.Kind {
	case coltype.Int, coltype.UInt:
		if t.Bits > 64 {
			return "String", true
		}
	case coltype.BFloat16:
		return "Float32", true
	case coltype.UUID, coltype.IPv4, coltype.IPv6, coltype.Enum, coltype.Time, coltype.Time64:
		return "String", true
	case coltype.Interval:
		return "Int64", true
	case coltype.DateTime, coltype.DateTime64:
		return fmt.Sprintf("DateTime64(%d, 'UTC')", t.Precision), true
	case coltype.Variant, coltype.Dynamic:
		return "Nullable(String)", true
	case coltype.Nullable:
		if t.Elem().Kind == coltype.Nothing {
			return "Nullable(String)", true
		}
		return wrapped("Nullable(", t)
	case coltype.LowCardinality, coltype.SimpleAggregateFunction:
		return portable(t.Elem())
	case coltype.Array:
		return wrapped("Array(", t)
	case coltype.Map:
		return wrapped("Map(", t)
	case coltype.Tuple:
		return wrapped("Tuple(", t)
	case coltype.Nested:
		text, changed = wrapped("Array(Tuple(", t)
		return text + ")", changed
	}
	return t.Text, false
}

// wrapped is portable for a type that is made of others.
func wrapped(opening string, t coltype.Type) (text string, changed bool) {
	var b strings.Builder
	b.WriteString(opening)
	for i, elem := range t.Elems {
		if i > 0 {
			b.WriteString(", ")
		}
		if i < len(t.Names) {
			b.WriteString(clickhouse.QuoteIdent(t.Names[i]) + " ")
		}
		inside, other := portable(elem)
		changed = changed || other
		b.WriteString(inside)
	}
	b.WriteByte(')')
	return b.String(), changed
}
