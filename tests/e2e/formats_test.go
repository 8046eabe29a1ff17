package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// readColumn is a column with a value, and what readers of Arrow and of Parquet make
// of it, as JSON.
type readColumn struct {
	typ, value, arrowType, arrow, parquet string
}

var readColumns = []readColumn{
	{`Int8`, `-5`, "Int8", `-5`, `-5`},
	{`UInt64`, `18446744073709551615`, "Uint64", `"18446744073709551615"`, `"18446744073709551615"`},
	{`Int128`, `'-170141183460469231731687303715884105728'`, "Utf8", `"-170141183460469231731687303715884105728"`, `"-170141183460469231731687303715884105728"`},
	{`UInt128`, `'340282366920938463463374607431768211455'`, "Utf8", `"340282366920938463463374607431768211455"`, `"340282366920938463463374607431768211455"`},
	{`Int256`, `-5`, "Utf8", `"-5"`, `"-5"`},
	{`UInt256`, `'115792089237316195423570985008687907853269984665640564039457584007913129639935'`, "Utf8", `"115792089237316195423570985008687907853269984665640564039457584007913129639935"`, `"115792089237316195423570985008687907853269984665640564039457584007913129639935"`},
	{`Float32`, `1.5`, "Float32", `1.5`, `1.5`},
	{`Float64`, `0.1`, "Float64", `0.1`, `0.1`},
	{`BFloat16`, `1.5`, "Float32", `1.5`, `1.5`},
	{`Decimal(9, 2)`, `'-1.5'`, "Decimal[9e+2]", `"-1.50"`, `-1.5`},
	{`Decimal(38, 18)`, `'2.5'`, "Decimal[38e+18]", `"2.500000000000000000"`, `2.5`},
	{`Decimal(76, 30)`, `'3.5'`, "Decimal[76e+30]", `"3.500000000000000000000000000000"`, `3.5`},
	{`String`, `'é'`, "Utf8", `"é"`, `"é"`},
	{`FixedString(4)`, `'ab'`, "FixedSizeBinary[4]", `[97,98,0,0]`, `[97,98,0,0]`},
	{`LowCardinality(String)`, `'lc'`, "Utf8", `"lc"`, `"lc"`},
	{`LowCardinality(Nullable(String))`, `NULL`, "Utf8", `null`, `null`},
	{`Bool`, `true`, "Bool", `true`, `true`},
	{`UUID`, `'61f0c404-5cb3-11e7-907b-a6006ad3dba0'`, "Utf8", `"61f0c404-5cb3-11e7-907b-a6006ad3dba0"`, `"61f0c404-5cb3-11e7-907b-a6006ad3dba0"`},
	{`IPv4`, `'1.2.3.4'`, "Utf8", `"1.2.3.4"`, `"1.2.3.4"`},
	{`IPv6`, `'2001:db8::1'`, "Utf8", `"2001:db8::1"`, `"2001:db8::1"`},
	{`Enum8('a' = 1, 'b' = -2)`, `'b'`, "Utf8", `"b"`, `"b"`},
	{`Nullable(Enum16('x' = 300))`, `'x'`, "Utf8", `"x"`, `"x"`},
	{`Array(Enum8('a' = 1, 'b' = 2))`, `['b', 'a']`, "List<Utf8>", `["b","a"]`, `["b","a"]`},
	{`Date`, `'2026-03-04'`, "Date32<DAY>", `1772582400000`, `"2026-03-04T00:00:00.000Z"`},
	{`Date32`, `'1950-01-01'`, "Date32<DAY>", `-631152000000`, `"1950-01-01T00:00:00.000Z"`},
	{`DateTime`, `'2026-03-04 05:06:07'`, "Timestamp<SECOND, UTC>", `1772600767000`, `"2026-03-04T05:06:07.000Z"`},
	{`DateTime('Europe/Berlin')`, `'2026-03-04 06:06:07'`, "Timestamp<SECOND, UTC>", `1772600767000`, `"2026-03-04T05:06:07.000Z"`},
	{`Nullable(DateTime)`, `NULL`, "Timestamp<SECOND, UTC>", `null`, `null`},
	{`DateTime64(3, 'UTC')`, `'1969-12-31 23:59:59.089'`, "Timestamp<MILLISECOND, UTC>", `-911`, `"1969-12-31T23:59:59.089Z"`},
	{`DateTime64(6)`, `'2026-03-04 05:06:07.123456'`, "Timestamp<MICROSECOND, UTC>", `1772600767123.456`, `"2026-03-04T05:06:07.123Z"`},
	{`DateTime64(9, 'Asia/Tokyo')`, `'2026-03-04 05:06:07.000000001'`, "Timestamp<NANOSECOND, UTC>", `1772568367000`, `"2026-03-03T20:06:07.000Z"`},
	{`Array(DateTime('UTC'))`, `['2026-03-04 05:06:07']`, "List<Timestamp<SECOND, UTC>>", `[1772600767000]`, `["2026-03-04T05:06:07.000Z"]`},
	{`Time`, `'-999:59:59'`, "Utf8", `"-999:59:59"`, `"-999:59:59"`},
	{`Time64(3)`, `'12:34:56.789'`, "Utf8", `"12:34:56.789"`, `"12:34:56.789"`},
	{`IntervalDay`, `3`, "Int64", `"3"`, `"3"`},
	{`Array(Nullable(String))`, `['x', NULL]`, "List<Utf8>", `["x",null]`, `["x",null]`},
	{`Map(String, UInt8)`, `map('k', 1)`, "Map<{key:Utf8, value:Uint8}>", `{"k":1}`, `{"k":1}`},
	{`Map(Enum8('a' = 1), Array(UUID))`, `map('a', ['61f0c404-5cb3-11e7-907b-a6006ad3dba0'])`, "Map<{key:Utf8, value:List<Utf8>}>", `{"a":["61f0c404-5cb3-11e7-907b-a6006ad3dba0"]}`, `{"a":["61f0c404-5cb3-11e7-907b-a6006ad3dba0"]}`},
	{`Tuple(UInt8, String)`, `(1, 't')`, "Struct<{1:Uint8, 2:Utf8}>", `{"1":1,"2":"t"}`, `{"1":1,"2":"t"}`},
	{"Tuple(`a b` Enum8('a' = 1), c Tuple(d DateTime('UTC')))", `('a', ('2026-03-04 05:06:07',))`, "Struct<{a b:Utf8, c:Struct<{d:Timestamp<SECOND, UTC>}>}>", `{"a b":"a","c":{"d":1772600767000}}`, `{"a b":"a","c":{"d":"2026-03-04T05:06:07.000Z"}}`},
	{`Array(Tuple(a UInt8, b IPv4))`, `[(1, '1.2.3.4')]`, "List<Struct<{a:Uint8, b:Utf8}>>", `[{"a":1,"b":"1.2.3.4"}]`, `[{"a":1,"b":"1.2.3.4"}]`},
	{`Point`, `(1.5, 2)`, "Struct<{1:Float64, 2:Float64}>", `{"1":1.5,"2":2}`, `{"1":1.5,"2":2}`},
	{`Ring`, `[(0, 1)]`, "List<Struct<{1:Float64, 2:Float64}>>", `[{"1":0,"2":1}]`, `[{"1":0,"2":1}]`},
	{`Nullable(Int64)`, `NULL`, "Int64", `null`, `null`},
	{`Variant(String, UInt64)`, `5::UInt64`, "Utf8", `"5"`, `"5"`},
	{`Dynamic`, `'d'::String`, "Utf8", `"d"`, `"d"`},
	{`JSON`, `'{"a":1}'`, "Utf8", `"{\"a\":1}"`, `{"a":1}`},
	{`SimpleAggregateFunction(sum, UInt64)`, `5`, "Uint64", `"5"`, `"5"`},
	{`AggregateFunction(sum, UInt64)`, `(SELECT sumState(toUInt64(5)))`, "Utf8", `"0500000000000000"`, `"0500000000000000"`},
}

// Libraries that others wrote read the answers.
func TestReadersOfOthers(t *testing.T) {
	t.Parallel()
	tool(t, "npm")
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	var structure, values []string
	for i, c := range readColumns {
		structure = append(structure, fmt.Sprintf("c%d %s", i, c.typ))
		values = append(values, fmt.Sprintf("CAST(%s AS %s)", c.value, c.typ))
	}
	clickhouse.Must(t, "CREATE TABLE columns ("+strings.Join(structure, ", ")+") ENGINE = MergeTree ORDER BY tuple()")
	clickhouse.Must(t, "INSERT INTO columns SELECT "+strings.Join(values, ", "))
	server := harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse})
	server.AwaitReady(t)

	dir, scripts := t.TempDir(), filepath.Join(harness.Root(t), "tests", "e2e", "formats")
	shell(t, "cp '"+scripts+"'/* '"+scripts+"/.npmrc' '"+dir+"/' && cd '"+dir+"' && npm ci --no-audit --no-fund --silent")
	out, err := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "read.mjs"), server.URL+"/v1/query?table=columns", `{"select_all":true}`).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var read struct {
		Arrow struct {
			Rows  int
			Types map[string]string
			Row   map[string]json.RawMessage
		}
		Parquet struct {
			Rows   int
			Codecs []string
			Row    map[string]json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(out, &read), "%s", out)
	assert.Equal(t, []any{1, 1, []string{"SNAPPY"}}, []any{read.Arrow.Rows, read.Parquet.Rows, read.Parquet.Codecs})
	for i, c := range readColumns {
		name := fmt.Sprintf("c%d", i)
		assert.Equal(t, c.arrowType, read.Arrow.Types[name], c.typ)
		assert.Equal(t, c.arrow, string(read.Arrow.Row[name]), "Arrow: %s", c.typ)
		assert.Equal(t, c.parquet, string(read.Parquet.Row[name]), "Parquet: %s", c.typ)
	}
}
