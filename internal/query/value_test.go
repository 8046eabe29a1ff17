package query_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

func TestValuesTravelAsTypedParameters(t *testing.T) {
	cases := []struct{ column, value, typ, text string }{
		{"i8", `-128`, "Int8", "-128"},
		{"i8", `"7"`, "Int8", "7"},
		{"u64", `18446744073709551615`, "UInt64", "18446744073709551615"},
		{"sum", `5`, "UInt64", "5"},
		{"u256", `115792089237316195423570985008687907853269984665640564039457584007913129639935`, "UInt256", "115792089237316195423570985008687907853269984665640564039457584007913129639935"},
		{"f", `1.5`, "Float64", "1.5"},
		{"f", `"Infinity"`, "Float64", "inf"},
		{"f", `"-Infinity"`, "Float64", "-inf"},
		{"dec", `"9007199254740993.25"`, "Decimal(18, 2)", "9007199254740993.25"},
		{"s", `"a\\b\n'\u0000"`, "String", `a\\b\n'\0`},
		{"lc", `"x"`, "String", "x"},
		{"fs", `"ab"`, "FixedString(4)", `ab\0\0`},
		{"b", `1`, "Bool", "true"},
		{"u", `"61F0C404-5CB3-11E7-907B-A6006AD3DBA0"`, "UUID", "61f0c404-5cb3-11e7-907b-a6006ad3dba0"},
		{"ip", `"1.2.3.4"`, "IPv4", "1.2.3.4"},
		{"e", `1`, "String", "a"},
		{"e", `"b'}"`, "String", "b'}"},
		{"d", `"2026-06-21"`, "Date", "2026-06-21"},
		{"d32", `"1950-06-21"`, "Date32", "1950-06-21"},
		{"dt", `"2026-06-21T04:00:00Z"`, "DateTime('UTC')", "2026-06-21 04:00:00"},
		{"dt", `"2026-06-21T06:00:00.000+02:00"`, "DateTime('UTC')", "2026-06-21 04:00:00"},
		{"dt", `1782014400`, "DateTime('UTC')", "2026-06-21 04:00:00"},
		{"berlin", `"2026-06-21 06:00:00"`, "DateTime('UTC')", "2026-06-21 04:00:00"},
		{"t6", `"2026-06-21T04:00:00.25Z"`, "DateTime64(6, 'UTC')", "2026-06-21 04:00:00.250000"},
	}
	for _, c := range cases {
		s, err := build(types(), policy.OperatorSelect(), `{"columns":["i8"],"filters":[{"column":"`+c.column+`","op":"eq","value":`+c.value+`}]}`)
		require.NoError(t, err, "%s %s", c.column, c.value)
		assert.Contains(t, s.SQL, "WHERE wh.`"+c.column+"` = {p0:"+c.typ+"} LIMIT", c.value)
		assert.Equal(t, params{"p0": c.text}, s.Params, "%s %s", c.column, c.value)
	}
}

func TestListsTravelAsTables(t *testing.T) {
	s, err := build(types(), policy.OperatorSelect(), `{"columns":["i8"],"filters":[
		{"column":"i8","op":"in","value":[1,-1]},{"column":"lc","op":"not_in","value":["a"]},{"column":"sum","op":"in","value":[]}]}`)
	require.NoError(t, err)
	assert.Contains(t, s.SQL, "WHERE wh.`i8` IN (SELECT v FROM wh_in0) AND wh.`lc` NOT IN (SELECT v FROM wh_in1) AND wh.`sum` IN (SELECT v FROM wh_in2) LIMIT")
	assert.Empty(t, s.Params)
	assert.Equal(t, []clickhouse.ExternalTable{
		{Name: "wh_in0", Structure: "v Int8", Format: "RowBinary", Data: []byte{1, 0xff}},
		{Name: "wh_in1", Structure: "v Nullable(String)", Format: "RowBinary", Data: []byte{0, 1, 'a'}},
		{Name: "wh_in2", Structure: "v UInt64", Format: "RowBinary"},
	}, s.External)

	s, err = build(tableOf("wh_in0", time.UTC, "a", "Int8"), policy.OperatorSelect(), `{"columns":["a"],"filters":[{"column":"a","op":"in","value":[1]}]}`)
	require.NoError(t, err)
	assert.Equal(t, "SELECT wh__.`a` AS `a` FROM `wh_in0` AS wh__ WHERE wh__.`a` IN (SELECT v FROM wh_in_0) LIMIT 1000 FORMAT JSONEachRow", s.SQL,
		"a list never takes the name of the table that is read")
}

func TestTimeRangeBounds(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	cases := []struct{ column, bound, typ, text string }{
		{"t6", "30m", "DateTime64(6, 'UTC')", "2026-03-04 04:36:00.000000"},
		{"t6", "0", "DateTime64(6, 'UTC')", "2026-03-04 05:06:00.000000"},
		{"t6", "7d", "DateTime64(6, 'UTC')", "2026-02-25 05:06:00.000000"},
		{"t6", "2w", "DateTime64(6, 'UTC')", "2026-02-18 05:06:00.000000"},
		{"t6", "1h30m", "DateTime64(6, 'UTC')", "2026-03-04 03:36:00.000000"},
		{"t6", "2026-01-01T02:00:00.500+02:00", "DateTime64(6, 'UTC')", "2026-01-01 00:00:00.500000"},
		{"t6", "2026-01-01T00:00:00.0000001Z", "DateTime64(6, 'UTC')", "2026-01-01 00:00:00.000001"},
		{"dt", "2026-01-01T00:00:00Z", "DateTime64(0, 'UTC')", "2026-01-01 00:00:00"},
		{"dt", "2026-01-01T00:00:00.5Z", "DateTime64(0, 'UTC')", "2026-01-01 00:00:01"},
		{"dt", "2200-01-01T00:00:00Z", "DateTime64(0, 'UTC')", "2200-01-01 00:00:00"},
		{"d", "2025-12-31T23:00:00Z", "Date32", "2026-01-01"},
		{"d", "2025-12-31T23:00:00.1Z", "Date32", "2026-01-02"},
		{"d32", "2025-12-31T22:59:59Z", "Date32", "2026-01-01"},
	}
	table := types()
	for _, c := range cases {
		doc, err := query.Parse([]byte(`{"columns":["i8"],"time_range":{"column":"` + c.column + `","since":"` + c.bound + `"}}`))
		require.NoError(t, err)
		o := options()
		o.Zone = berlin
		s, err := query.Build(doc, table, policy.OperatorSelect().Bind(nil, nil), o)
		require.NoError(t, err)
		assert.Contains(t, s.SQL, "WHERE wh.`"+c.column+"` >= {p0:"+c.typ+"} LIMIT", c.bound)
		assert.Equal(t, params{"p0": c.text}, s.Params, "%s %s", c.column, c.bound)
	}
}

func TestRelativeBoundsAreEqualWithinABucket(t *testing.T) {
	doc, err := query.Parse([]byte(`{"columns":["n"],"time_range":{"column":"ts","since":"1h"}}`))
	require.NoError(t, err)
	at := func(seconds int, bucket int) string {
		s, err := query.Build(doc, pages(), policy.OperatorSelect().Bind(nil, nil), query.Options{
			Now: time.Date(2026, 3, 4, 5, 0, seconds, 1, time.UTC), BucketSeconds: bucket,
		})
		require.NoError(t, err)
		return s.Params["p0"]
	}
	assert.Equal(t, "2026-03-04 04:00:00.000", at(0, 60))
	assert.Equal(t, at(0, 60), at(59, 60))
	assert.NotEqual(t, at(59, 60), at(60, 60))
	assert.Equal(t, "2026-03-04 04:00:59.000", at(59, 0), "without a bucket the second counts")
}
