package query_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/query"
)

func TestPortableTypes(t *testing.T) {
	const same = ""
	for typ, want := range map[string]string{
		"Int64": same, "Nullable(UInt8)": same, "String": same, "FixedString(4)": same, "LowCardinality(Nullable(String))": same, "Decimal(76, 30)": same, "Bool": same,
		"Date32": same, "Array(Tuple(a Int8, b String))": same, "Point": same, "JSON": same, "SimpleAggregateFunction(sum, UInt64)": same, "Map(String, Float64)": same, "NoSuchType(1)": same,
		"UInt256": "String", "Enum8('a' = 1)": "String", "Nullable(Enum8('a' = 1))": "Nullable(String)", "UUID": "String", "IPv6": "String", "Time64(3)": "String",
		"DateTime": "DateTime64(0, 'UTC')", "DateTime64(3, 'Europe/Berlin')": "DateTime64(3, 'UTC')", "BFloat16": "Float32", "IntervalDay": "Int64",
		"LowCardinality(DateTime)": "DateTime64(0, 'UTC')", "SimpleAggregateFunction(max, Nullable(IPv4))": "Nullable(String)",
		"Nullable(Nothing)": "Nullable(String)", "Variant(String, UInt8)": "Nullable(String)", "Array(Dynamic)": "Array(Nullable(String))",
		"Map(UUID, Array(Int128))": "Map(String, Array(String))", "Tuple(UInt8, UUID)": "Tuple(UInt8, String)",
		"Tuple(`a b` DateTime, c Tuple(UUID))": "Tuple(`a b` DateTime64(0, 'UTC'), `c` Tuple(String))", "Nested(a UUID, b Int8)": "Array(Tuple(`a` String, `b` Int8))",
	} {
		got := query.Portable("SELECT 1", []query.Output{{Name: "a`b", Type: typ}})
		if want == same {
			assert.Equal(t, "SELECT 1", got, typ)
			continue
		}
		assert.Equal(t, "SELECT * REPLACE (CAST(`a\\`b` AS "+want+") AS `a\\`b`) FROM (\nSELECT 1\n)", got, typ)
	}
	assert.Equal(t, "SELECT * REPLACE (hex(`s`) AS `s`) FROM (\nSELECT 1\n)", query.Portable("SELECT 1", []query.Output{{"n", "Int8"}, {"s", "AggregateFunction(sum, UInt8)"}}))
	assert.Equal(t, "SELECT 1", query.Portable("SELECT 1", []query.Output{{"t", "DateTime"}, {"t", "UUID"}}), "columns that no name tells apart are left")
}
