package coltype

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParsePlainTypes(t *testing.T) {
	for name, want := range plain {
		got, err := Parse(name)
		require.NoError(t, err)
		want.Name, want.Text = name, name
		assert.Equal(t, want, got)
	}
}

func TestParseArguments(t *testing.T) {
	for text, check := range map[string]func(Type) bool{
		"Decimal":                              func(x Type) bool { return x.Precision == 10 && x.Scale == 0 && x.Bits == 64 },
		"Decimal(9)":                           func(x Type) bool { return x.Precision == 9 && x.Scale == 0 && x.Bits == 32 },
		"Decimal(38, 18)":                      func(x Type) bool { return x.Precision == 38 && x.Scale == 18 && x.Bits == 128 },
		"Decimal( 76 ,76 )":                    func(x Type) bool { return x.Precision == 76 && x.Scale == 76 && x.Bits == 256 },
		"Decimal32(3)":                         func(x Type) bool { return x.Precision == 9 && x.Scale == 3 && x.Bits == 32 },
		"Decimal64(4)":                         func(x Type) bool { return x.Precision == 18 && x.Bits == 64 },
		"Decimal128(5)":                        func(x Type) bool { return x.Precision == 38 && x.Bits == 128 },
		"Decimal256(6)":                        func(x Type) bool { return x.Precision == 76 && x.Bits == 256 },
		"FixedString(16)":                      func(x Type) bool { return x.Length == 16 },
		"DateTime":                             func(x Type) bool { return x.Kind == DateTime && x.Zone == "" },
		"DateTime('Asia/Tokyo')":               func(x Type) bool { return x.Zone == "Asia/Tokyo" },
		"DateTime64(9)":                        func(x Type) bool { return x.Precision == 9 && x.Zone == "" },
		"DateTime64(0, 'UTC')":                 func(x Type) bool { return x.Precision == 0 && x.Zone == "UTC" },
		"DateTime64":                           func(x Type) bool { return x.Kind == DateTime64 && x.Precision == 3 },
		"Time64(6)":                            func(x Type) bool { return x.Kind == Time64 && x.Precision == 6 },
		"IntervalDay":                          func(x Type) bool { return x.Kind == Interval && x.Name == "IntervalDay" },
		"Nullable(Int8)":                       func(x Type) bool { return x.AcceptsNull() && x.Elem().Kind == Int },
		"LowCardinality(Nullable(String))":     func(x Type) bool { return x.AcceptsNull() },
		"LowCardinality(String)":               func(x Type) bool { return !x.AcceptsNull() },
		"Map(String, Array(UInt8))":            func(x Type) bool { return x.Elems[0].Kind == String && x.Elems[1].Elem().Bits == 8 },
		"Variant(Int8, String)":                func(x Type) bool { return len(x.Elems) == 2 && x.AcceptsNull() },
		"Dynamic":                              func(x Type) bool { return x.Kind == Dynamic && x.Args == "" },
		"Dynamic(max_types=5)":                 func(x Type) bool { return x.Args == "max_types=5" },
		"JSON":                                 func(x Type) bool { return x.Kind == JSON },
		"MultiPolygon":                         func(x Type) bool { return x.Elem().Text == "Array(Polygon)" },
		"Tuple()":                              func(x Type) bool { return x.Kind == Tuple && len(x.Elems) == 0 },
		"Tuple(Int8, DateTime64(3, 'UTC'))":    func(x Type) bool { return x.Names == nil && x.Elems[1].Zone == "UTC" },
		"SimpleAggregateFunction(sum, UInt64)": func(x Type) bool { return x.Function == "sum" && x.Elem().Bits == 64 },
		"AggregateFunction(count)":             func(x Type) bool { return x.Function == "count" && x.Elems == nil },
		"QBit(Float32, 4)":                     func(x Type) bool { return x.Kind == Other && x.Args == "Float32, 4" },
		"FutureType":                           func(x Type) bool { return x.Kind == Other && x.Name == "FutureType" },
		"FutureType(a(b), 'c)', `d)`)":         func(x Type) bool { return x.Args == "a(b), 'c)', `d)`" },
		"AggregateFunction(1, sumMap, Array(Int8))": func(x Type) bool { return x.Function == "sumMap" && len(x.Elems) == 1 },
		"AggregateFunction(quantiles(0.5, 0.9), Float64)": func(x Type) bool {
			return x.Function == "quantiles(0.5, 0.9)" && x.Elem().Kind == Float
		},
		"JSON(max_dynamic_paths=10, `a.b` UInt32, SKIP `x.y`, SKIP REGEXP 'ab\\'c)')": func(x Type) bool {
			return strings.HasSuffix(x.Args, `SKIP REGEXP 'ab\'c)'`)
		},
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, text, got.String())
		assert.True(t, check(got), "%s: %+v", text, got)
	}
}

// The texts are as the server writes them in system.columns.
func TestParseNamesWithEscapes(t *testing.T) {
	enum, err := Parse(`Enum8('z' = -3, 'a\'\\"b\n\tx\0y` + "`" + `' = 1, 'q''q', '\x41\/\d' = 7)`)
	require.NoError(t, err)
	assert.Equal(t, []EnumValue{{"z", -3}, {"a'\\\"b\n\tx\x00y`", 1}, {"q'q", 2}, {`A/\d`, 7}}, enum.Values)

	tuple, err := Parse("Tuple(`a b` Int8, `1` String, `q\\`\\\\t` Array(Int8), dq Int8, \"x\"\"y\" DateTime64(3, 'Asia/Tokyo'))")
	require.NoError(t, err)
	assert.Equal(t, []string{"a b", "1", "q`\\t", "dq", `x"y`}, tuple.Names)
	assert.Equal(t, "Asia/Tokyo", tuple.Elems[4].Zone)

	nested, err := Parse("Nested(a Int8, `b.c` Nested(d String))")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b.c"}, nested.Names)
}

func TestParseRefusesWithOffset(t *testing.T) {
	for text, offset := range map[string]int{
		"":                             0,
		"8Int":                         0,
		"Array":                        5,
		"Array(":                       6,
		"Array()":                      6,
		"Array(Int8":                   10,
		"Array(Int8, Int8)":            17,
		"Int8 x":                       5,
		"Map(String)":                  11,
		"Decimal(77, 2)":               8,
		"Decimal(4, 5)":                11,
		"Decimal32(10)":                10,
		"FixedString(0)":               12,
		"FixedString(99999999999)":     12,
		"FixedString('a')":             12,
		"DateTime(UTC)":                9,
		"DateTime64(10)":               11,
		"DateTime64(3, UTC)":           14,
		"DateTime('UTC":                13,
		"Time64(3, 'UTC')":             9,
		"Enum8('a' = 128)":             12,
		"Enum8('a' = 127, 'b')":        20,
		"Enum8('a' = -129)":            12,
		"Enum8(a = 1)":                 6,
		`Enum8('\x4`:                   10,
		`Enum8('\xzz')`:                9,
		`Enum8('\`:                     8,
		"Nested(Int8)":                 11,
		"Tuple(a Int8, )":              14,
		"SimpleAggregateFunction(sum)": 28,
		"AggregateFunction((1))":       18,
		"AggregateFunction(1 sum)":     20,
		"AggregateFunction(quantile(0.5, Float64)": 40,
		"Future('a)": 10,
	} {
		_, err := Parse(text)
		var fault *Error
		require.ErrorAs(t, err, &fault, text)
		assert.Equal(t, offset, fault.Offset, "%s: %v", text, err)
		assert.Contains(t, err.Error(), "at offset")
	}
}

func TestParseBoundsDepthAndLength(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("Array(", n) + "Int8" + strings.Repeat(")", n) }
	_, err := Parse(deep(maxDepth - 1))
	require.NoError(t, err)
	_, err = Parse(deep(maxDepth))
	require.ErrorContains(t, err, "nested deeper")
	_, err = Parse(deep(200_000))
	require.ErrorContains(t, err, "nested deeper")
	_, err = Parse(strings.Repeat("a", maxText+1))
	require.ErrorContains(t, err, "too long")
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"Array(Nullable(Int8))", "Enum8('a' = 1)", "Tuple(`a` Int8, b String)", "JSON(a.b UInt32, SKIP x)",
		"AggregateFunction(1, quantiles(0.5), Float64)", "DateTime64(3, 'UTC')", "Variant(A, B)", "Nested(a Int8)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(got.Text)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}
