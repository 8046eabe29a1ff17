package coltype

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPlainOrderedAndAggregates(t *testing.T) {
	for text, want := range map[string]struct {
		plain               string
		ordered, aggregates bool
	}{
		"String":                                 {"String", true, false},
		"LowCardinality(Nullable(String))":       {"String", true, false},
		"Nullable(DateTime64(3, 'UTC'))":         {"DateTime64(3, 'UTC')", true, false},
		"SimpleAggregateFunction(max, UInt8)":    {"UInt8", true, true},
		"AggregateFunction(sum, UInt64)":         {"AggregateFunction(sum, UInt64)", false, true},
		"Array(UInt8)":                           {"Array(UInt8)", false, false},
		"Map(String, String)":                    {"Map(String, String)", false, false},
		"Array(AggregateFunction(uniq, String))": {"Array(AggregateFunction(uniq, String))", false, true},
		"JSON":                                   {"JSON", false, false},
		"IntervalDay":                            {"IntervalDay", false, false},
		"BFloat16":                               {"BFloat16", false, false},
	} {
		typ, err := Parse(text)
		require.NoError(t, err)
		assert.Equal(t, want.plain, typ.Plain().Text, text)
		assert.Equal(t, want.ordered, typ.Plain().Ordered(), text)
		assert.Equal(t, want.aggregates, typ.Aggregates(), text)
	}
}
