package codegen

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// TypeScript writes the type that `new WaveHouse<Database>()` takes.
func TypeScript(shape Shape) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// Written by `wavehouse codegen ts` for the role %s. Do not edit.\n\nexport interface Database {\n  tables: {\n", tsString(shape.Role))
	for _, t := range shape.Tables {
		fmt.Fprintf(&b, "    %s: {\n      row: %s;\n      insert: %s;\n    };\n", tsString(t.Name),
			tsObject(t.Row, "      ", readType), tsObject(t.Insert, "      ", insertType))
	}
	b.WriteString("  };\n  pipes: {\n")
	for _, p := range shape.Pipes {
		row := "Record<string, unknown>"
		if p.Row != nil {
			row = tsObject(p.Row, "      ", readType)
		}
		fmt.Fprintf(&b, "    %s: {\n      params: %s;\n      row: %s;\n    };\n", tsString(p.Name), tsObject(p.Parameters, "      ", parameterType), row)
	}
	b.WriteString("  };\n}\n")
	return b.String()
}

func tsObject(fields []Field, indent string, typeOf func(string) string) string {
	if len(fields) == 0 {
		return "Record<string, never>"
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, f := range fields {
		mark := ""
		if f.Optional {
			mark = "?"
		}
		fmt.Fprintf(&b, "%s  %s%s: %s;\n", indent, tsString(f.Name), mark, typeOf(f.Type))
	}
	b.WriteString(indent + "}")
	return b.String()
}

// tsString quotes a name; JSON's strings are JavaScript's.
func tsString(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("codegen: a string that does not marshal: " + err.Error())
	}
	return string(text)
}

func readType(text string) string   { return tsType(text, false) }
func insertType(text string) string { return tsType(text, true) }

func tsType(text string, insert bool) string {
	t, err := coltype.Parse(text)
	if err != nil {
		return "unknown"
	}
	return tsOf(t, insert)
}

func tsOf(t coltype.Type, insert bool) string {
	switch t.Kind {
	case coltype.Int, coltype.UInt:
		switch {
		case t.Bits < 64:
			return "number"
		case insert:
			return "number | bigint | string"
		}
		return "number | bigint"
	case coltype.Float, coltype.BFloat16:
		if insert {
			return "number"
		}
		return "number | null" // NaN and the infinities are null
	case coltype.Decimal:
		return "number | bigint | string"
	case coltype.Bool:
		return "boolean"
	case coltype.DateTime, coltype.DateTime64:
		if insert {
			return "string | Date"
		}
		return "string"
	case coltype.Enum:
		names := make([]string, len(t.Values))
		for i, v := range t.Values {
			names[i] = tsString(v.Name)
		}
		return strings.Join(names, " | ")
	case coltype.Nullable:
		return union(tsOf(t.Elem(), insert), "null")
	case coltype.LowCardinality, coltype.SimpleAggregateFunction:
		return tsOf(t.Elems[len(t.Elems)-1], insert)
	case coltype.Array:
		return arrayOf(tsOf(t.Elem(), insert))
	case coltype.Map:
		return fmt.Sprintf("Record<string, %s>", tsOf(t.Elems[1], insert))
	case coltype.Tuple, coltype.Nested:
		return tsTuple(t, insert)
	case coltype.Nothing:
		return "null"
	case coltype.String, coltype.FixedString, coltype.UUID, coltype.IPv4, coltype.IPv6, coltype.Date, coltype.Date32,
		coltype.Time, coltype.Time64, coltype.AggregateFunction:
		return "string"
	}
	return "unknown" // JSON, Dynamic, Variant, Geo, and what this version does not know
}

func tsTuple(t coltype.Type, insert bool) string {
	parts := make([]string, len(t.Elems))
	for i, elem := range t.Elems {
		parts[i] = tsOf(elem, insert)
		if t.Names != nil {
			parts[i] = tsString(t.Names[i]) + ": " + parts[i]
		}
	}
	switch {
	case t.Kind == coltype.Nested:
		return arrayOf("{ " + strings.Join(parts, "; ") + " }")
	case t.Names != nil:
		return "{ " + strings.Join(parts, "; ") + " }"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func arrayOf(elem string) string {
	if strings.Contains(elem, " | ") {
		elem = "(" + elem + ")"
	}
	return elem + "[]"
}

func union(a, b string) string {
	if strings.HasSuffix(a, " | "+b) {
		return a
	}
	return a + " | " + b
}

// parameterType is the type of a pipe's parameter, which has types of its own.
func parameterType(declared string) string {
	if inner, ok := strings.CutPrefix(declared, "array("); ok {
		return "readonly " + arrayOf(parameterType(strings.TrimSpace(strings.TrimSuffix(inner, ")"))))
	}
	if inner, ok := strings.CutPrefix(declared, "identifier("); ok {
		var choices []string
		for choice := range strings.SplitSeq(strings.TrimSuffix(inner, ")"), "|") {
			choices = append(choices, tsString(strings.TrimSpace(choice)))
		}
		return strings.Join(choices, " | ")
	}
	switch declared {
	case "number":
		return "number | bigint"
	case "boolean":
		return "boolean"
	case "datetime":
		return "string | Date"
	}
	return "string"
}
