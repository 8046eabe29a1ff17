package record

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// verdicts are what a codec makes of values: accepted ones with their RowBinary
// in hexadecimal and the JSON they are rendered as, refused ones with the code.
type verdicts struct {
	accepted [][3]string
	refused  [][2]string
}

const (
	mism  = CodeTypeMismatch
	rang  = CodeOutOfRange
	nulls = CodeNullNotAllowed
)

func checkVerdicts(t *testing.T, all map[string]verdicts) {
	for typeText, v := range all {
		codec, err := NewCodec(typeText, time.UTC)
		require.NoError(t, err, typeText)
		for _, want := range v.accepted {
			checkAccepted(t, typeText, codec, want)
		}
		for _, want := range v.refused {
			out, err := codec.AppendJSON([]byte("before"), []byte(want[0]))
			var fault *Error
			require.ErrorAs(t, err, &fault, "%s of %s was taken", want[0], typeText)
			assert.Equal(t, want[1], fault.Code, "%s of %s: %v", want[0], typeText, err)
			assert.Equal(t, "before", string(out))
			assert.NotEmpty(t, fault.Message)
		}
	}
}

func checkAccepted(t *testing.T, typeText string, codec Codec, want [3]string) {
	t.Helper()
	value, wantHex, wantJSON := want[0], want[1], want[2]
	out, err := codec.AppendJSON([]byte("before"), []byte(value))
	require.NoError(t, err, "%s of %s", value, typeText)
	encoded, found := strings.CutPrefix(string(out), "before")
	require.True(t, found)
	assert.Equal(t, wantHex, hex.EncodeToString([]byte(encoded)), "%s of %s", value, typeText)

	rendered, n, err := codec.RenderJSON([]byte("x"), []byte(encoded+"rest"), RenderOptions{})
	require.NoError(t, err)
	assert.Equal(t, len(encoded), n)
	assert.Equal(t, "x"+wantJSON, string(rendered), "%s of %s", value, typeText)

	n, err = codec.Skip([]byte(encoded + "rest"))
	require.NoError(t, err)
	assert.Equal(t, len(encoded), n)
	for cut := range len(encoded) {
		_, err := codec.Skip([]byte(encoded[:cut]))
		require.Error(t, err, "%s of %s cut to %d bytes", value, typeText, cut)
		_, _, err = codec.RenderJSON(nil, []byte(encoded[:cut]), RenderOptions{})
		require.Error(t, err)
	}
	if cmp, ok := codec.Compare([]byte(encoded), []byte(encoded)); ok {
		assert.Zero(t, cmp)
	}
}

func TestIntegers(t *testing.T) {
	refused := [][2]string{
		{"1.0", mism}, {"1e3", mism}, {"1.5", mism}, {`""`, mism}, {`" 5"`, mism}, {`"5 "`, mism}, {`"0x10"`, mism},
		{`"five"`, mism}, {`"+"`, mism}, {`"-"`, mism}, {`"1_0"`, mism}, {"true", mism}, {"null", nulls}, {"{}", mism}, {"[1]", mism}, {`"nan"`, mism},
		{strings.Repeat("9", 100_000), rang}, {"1e999999999", mism}, {`"` + strings.Repeat("9", 100) + `x"`, mism},
	}
	with := func(more ...[2]string) [][2]string { return append(more, refused...) }
	checkVerdicts(t, map[string]verdicts{
		"Int8": {[][3]string{{"-128", "80", "-128"}, {"127", "7f", "127"}, {`"+5"`, "05", "5"}, {`"007"`, "07", "7"}, {"-0", "00", "0"}, {`"\u0035"`, "05", "5"}},
			with([2]string{"128", rang}, [2]string{"-129", rang})},
		"UInt8": {[][3]string{{"255", "ff", "255"}, {"0", "00", "0"}, {`"` + strings.Repeat("0", 200) + `7"`, "07", "7"}},
			with([2]string{"256", rang}, [2]string{"-1", rang}, [2]string{"-0", rang})},
		"Int16":  {[][3]string{{"-32768", "0080", "-32768"}}, with([2]string{"32768", rang})},
		"UInt16": {[][3]string{{"65535", "ffff", "65535"}}, with([2]string{"65536", rang})},
		"Int32":  {[][3]string{{"-2147483648", "00000080", "-2147483648"}}, with([2]string{"2147483648", rang})},
		"UInt32": {[][3]string{{"4294967295", "ffffffff", "4294967295"}}, with([2]string{"4294967296", rang})},
		"Int64": {[][3]string{{"-9223372036854775808", "0000000000000080", "-9223372036854775808"}, {`"9223372036854775807"`, "ffffffffffffff7f", "9223372036854775807"}},
			with([2]string{"9223372036854775808", rang}, [2]string{"-9223372036854775809", rang})},
		"UInt64": {[][3]string{{"18446744073709551615", "ffffffffffffffff", "18446744073709551615"}},
			with([2]string{"18446744073709551616", rang}, [2]string{`"99999999999999999999"`, rang})},
		"IntervalDay": {[][3]string{{"3", "0300000000000000", "3"}}, with()},
		"Int128": {[][3]string{
			{"-170141183460469231731687303715884105728", strings.Repeat("00", 15) + "80", "-170141183460469231731687303715884105728"},
			{"170141183460469231731687303715884105727", strings.Repeat("ff", 15) + "7f", "170141183460469231731687303715884105727"},
			{"-1", strings.Repeat("ff", 16), "-1"}, {"10000000000000000000", "0000e8890423c78a" + strings.Repeat("00", 8), "10000000000000000000"}},
			with([2]string{"170141183460469231731687303715884105728", rang}, [2]string{"-170141183460469231731687303715884105729", rang})},
		"UInt128": {[][3]string{{"340282366920938463463374607431768211455", strings.Repeat("ff", 16), "340282366920938463463374607431768211455"}},
			with([2]string{"340282366920938463463374607431768211456", rang}, [2]string{"-1", rang}, [2]string{"-0", rang})},
		"Int256": {[][3]string{{"-57896044618658097711785492504343953926634992332820282019728792003956564819968", strings.Repeat("00", 31) + "80", "-57896044618658097711785492504343953926634992332820282019728792003956564819968"}},
			with([2]string{"57896044618658097711785492504343953926634992332820282019728792003956564819968", rang})},
		"UInt256": {[][3]string{{"115792089237316195423570985008687907853269984665640564039457584007913129639935", strings.Repeat("ff", 32), "115792089237316195423570985008687907853269984665640564039457584007913129639935"}},
			with([2]string{"115792089237316195423570985008687907853269984665640564039457584007913129639936", rang})},
	})
}

func TestDecimals(t *testing.T) {
	refused := [][2]string{{`"x"`, mism}, {`""`, mism}, {`"."`, mism}, {`"1e"`, mism}, {"true", mism}, {"null", nulls}, {"[]", mism}, {`"nan"`, mism}, {"1e999999999", rang}, {"1e-999999999", mism}, {strings.Repeat("9", 100_000), rang}}
	with := func(more ...[2]string) [][2]string { return append(more, refused...) }
	checkVerdicts(t, map[string]verdicts{
		"Decimal(9, 2)": {[][3]string{
			{"1.5", "96000000", "1.5"}, {"-0.05", "fbffffff", "-0.05"}, {"0", "00000000", "0"}, {"-0.00", "00000000", "0"}, {"100", "10270000", "100"},
			{`"+1.50"`, "96000000", "1.5"}, {`".5"`, "32000000", "0.5"}, {`"5."`, "f4010000", "5"}, {"1.230", "7b000000", "1.23"}, {"1e-1", "0a000000", "0.1"},
			{"1e3", "a0860100", "1000"}, {"12300e-4", "7b000000", "1.23"}, {"9999999.99", "ffc99a3b", "9999999.99"}, {"0e999999999", "00000000", "0"},
			{"0.00000e-5", "00000000", "0"}, {"150e-2", "96000000", "1.5"}},
			with([2]string{"1.234", mism}, [2]string{"10000000", rang}, [2]string{"1e10", rang}, [2]string{"123e-3", mism})},
		"Decimal32(0)":  {[][3]string{{"7", "07000000", "7"}, {"7.0", "07000000", "7"}}, with([2]string{"7.1", mism})},
		"Decimal(18,4)": {[][3]string{{"0.001", "0a00000000000000", "0.001"}, {"-1", "f0d8ffffffffffff", "-1"}}, with()},
		"Decimal(38, 18)": {nil,
			with([2]string{"100000000000000000000", rang})},
		"Decimal(76, 0)": {[][3]string{{"-1", strings.Repeat("ff", 32), "-1"}}, with([2]string{"1" + strings.Repeat("0", 76), rang}, [2]string{strings.Repeat("9", 80), rang})},
	})
}

func TestFloats(t *testing.T) {
	refused := [][2]string{{"1e400", rang}, {`"1e400"`, rang}, {`"x"`, mism}, {`""`, mism}, {`"0x1p3"`, mism}, {`"1_0"`, mism}, {`"+nan"`, mism}, {`"infinit"`, mism}, {"true", mism}, {"null", nulls}, {"{}", mism}}
	checkVerdicts(t, map[string]verdicts{
		"Float64": {[][3]string{{"1.5", "000000000000f83f", "1.5"}, {"-0.0", "0000000000000080", "-0"}, {`"nan"`, "000000000000f87f", "null"}, {`"-inf"`, "000000000000f0ff", "null"}},
			refused},
		"Float32": {[][3]string{{"0.1", "cdcccc3d", "0.1"}, {"16777217", "0000804b", "16777216"}, {"2147483648", "0000004f", "2147483600"}, {"1e-7", "95bfd633", "1e-7"}},
			append([][2]string{{"1e39", rang}}, refused...)},
		"BFloat16": {[][3]string{{"0.1", "cc3d", "0.099609375"}, {`"nan"`, "c07f", "null"}, {"1e10", "1550", "9999221000"}}, refused},
	})
	for value, want := range map[string]string{
		"1e21": "1e21", "1e20": "100000000000000000000", "0.000001": "0.000001", "1e-7": "1e-7", "1.5e-10": "1.5e-10", "-1e-100": "-1e-100", "1e-400": "0",
		"-0.0": "-0", "5e-324": "5e-324", "1.7976931348623157e308": "1.7976931348623157e308", "123456789012345678": "123456789012345680",
		`"007"`: "7", `".5"`: "0.5", `"NaN"`: "null", `"inf"`: "null", `"-Infinity"`: "null", `"+inf"`: "null", "9223372036854775808": "9223372036854776000",
	} {
		assert.Equal(t, want, roundTrip(t, "Float64", value, RenderOptions{}), value)
	}
	assert.Equal(t, `"-inf"`, roundTrip(t, "Float64", `"-inf"`, RenderOptions{denormals: true}))
	assert.Equal(t, `"inf"`, roundTrip(t, "Float64", `"inf"`, RenderOptions{denormals: true}))
	assert.Equal(t, `"nan"`, roundTrip(t, "Float32", `"nan"`, RenderOptions{denormals: true}))
}

// roundTrip reads a value and renders it.
func roundTrip(t *testing.T, typeText, value string, o RenderOptions) string {
	t.Helper()
	codec, err := NewCodec(typeText, time.UTC)
	require.NoError(t, err)
	encoded, err := codec.AppendJSON(nil, []byte(value))
	require.NoError(t, err, "%s of %s", value, typeText)
	out, n, err := codec.RenderJSON(nil, encoded, o)
	require.NoError(t, err)
	require.Equal(t, len(encoded), n)
	return string(out)
}

func TestStrings(t *testing.T) {
	long := strings.Repeat("é", 100)
	checkVerdicts(t, map[string]verdicts{
		"String": {[][3]string{
			{`""`, "00", `""`}, {`"a"`, "0161", `"a"`}, {"123", "03313233", `"123"`}, {"1.50", "04312e3530", `"1.50"`}, {"true", "0474727565", `"true"`},
			{`"\u0000\b\f\n\r\t\"\\\/"`, "0900080c0a0d09225c2f", `"\u0000\b\f\n\r\t\"\\/"`}, {`"\ud83d\ude00"`, "04f09f9880", `"😀"`}, {`"\u001f\u007f\u2028\u2029"`, "081f7fe280a8e280a9", `"\u001F` + "\x7f" + `\u2028\u2029"`},
			{`"` + long + `"`, "c801" + hex.EncodeToString([]byte(long)), `"` + long + `"`}, {`"\u00e9` + long[2:] + `"`, "c801" + hex.EncodeToString([]byte(long)), `"` + long + `"`}, {`"€"`, "03e282ac", `"€"`}},
			[][2]string{{"null", nulls}, {`{"a":1}`, mism}, {"[1,2]", mism}}},
		"FixedString(3)": {[][3]string{{`"ab"`, "616200", `"ab\u0000"`}, {`"é"`, "c3a900", `"é\u0000"`}, {`"abc"`, "616263", `"abc"`}},
			[][2]string{{`"abcd"`, rang}, {"12", mism}, {"null", nulls}, {"true", mism}}},
		"LowCardinality(String)":                   {[][3]string{{`"a"`, "0161", `"a"`}}, [][2]string{{"null", nulls}}},
		"SimpleAggregateFunction(anyLast, String)": {[][3]string{{`"a"`, "0161", `"a"`}}, [][2]string{{"null", nulls}}},
	})
}

func TestSmallTypes(t *testing.T) {
	checkVerdicts(t, map[string]verdicts{
		"Bool": {[][3]string{{"true", "01", "true"}, {"false", "00", "false"}, {"1", "01", "true"}, {"0", "00", "false"}, {`"true"`, "01", "true"}, {`"false"`, "00", "false"}},
			[][2]string{{"2", mism}, {`"yes"`, mism}, {`"1"`, mism}, {`"TRUE"`, mism}, {"1.0", mism}, {"null", nulls}, {"[]", mism}}},
		"UUID": {[][3]string{
			{`"61F0C404-5CB3-11E7-907B-A6006AD3DBA0"`, "e711b35c04c4f061a0dbd36a00a67b90", `"61f0c404-5cb3-11e7-907b-a6006ad3dba0"`},
			{`"61f0c4045cb311e7907ba6006ad3dba0"`, "e711b35c04c4f061a0dbd36a00a67b90", `"61f0c404-5cb3-11e7-907b-a6006ad3dba0"`}},
			[][2]string{{`""`, mism}, {`"61f0c404-5cb3-11e7-907b-a6006ad3dba"`, mism}, {`"61f0c404x5cb3-11e7-907b-a6006ad3dba0"`, mism}, {`"g1f0c404-5cb3-11e7-907b-a6006ad3dba0"`, mism}, {"5", mism}, {"null", nulls}}},
		"IPv4": {[][3]string{{`"1.2.3.4"`, "04030201", `"1.2.3.4"`}}, [][2]string{{`"01.2.3.4"`, mism}, {`"1.2.3"`, mism}, {"16909060", mism}, {`"::1"`, mism}, {`"256.1.1.1"`, mism}, {"null", nulls}}},
		"IPv6": {[][3]string{
			{`"::1"`, strings.Repeat("00", 15) + "01", `"::1"`}, {`"2001:DB8::"`, "20010db8" + strings.Repeat("00", 12), `"2001:db8::"`}, {`"1.2.3.4"`, strings.Repeat("00", 10) + "ffff01020304", `"::ffff:1.2.3.4"`},
			{`"::1.2.3.4"`, strings.Repeat("00", 12) + "01020304", `"::1.2.3.4"`}, {`"::"`, strings.Repeat("00", 16), `"::"`}},
			[][2]string{{`"fe80::1%eth0"`, mism}, {`""`, mism}, {`"x"`, mism}, {"1", mism}, {"null", nulls}}},
		"Enum8('a'=1,'b'=-2,'5'=6)": {[][3]string{{`"a"`, "01", `"a"`}, {"-2", "fe", `"b"`}, {`"-2"`, "fe", `"b"`}, {`"5"`, "06", `"5"`}, {"6", "06", `"5"`}},
			[][2]string{{`"c"`, mism}, {"5", mism}, {"1.0", mism}, {`""`, mism}, {"null", nulls}, {"true", mism}, {"70000", mism}, {"257", mism}, {"65537", mism}}},
		"Enum16('x\\'\\n'=300)":            {[][3]string{{`"x'\n"`, "2c01", `"x'\n"`}}, [][2]string{{"44", mism}}},
		"Nullable(Int8)":                   {[][3]string{{"null", "01", "null"}, {"5", "0005", "5"}}, [][2]string{{`"null"`, mism}, {"300", rang}}},
		"LowCardinality(Nullable(String))": {[][3]string{{"null", "01", "null"}, {`"a"`, "000161", `"a"`}}, [][2]string{{"[]", mism}}},
	})
	_, _, err := (&enumCodec{fixedCodec: newFixed("Enum8", 1)}).RenderJSON(nil, []byte{9}, RenderOptions{})
	require.ErrorContains(t, err, "no value 9")
}

func TestDates(t *testing.T) {
	refused := [][2]string{{`"2026-02-30"`, mism}, {`"2026-3-4"`, mism}, {`"20260304"`, mism}, {"20000", mism}, {`"2026-03-04T00:00:00Z"`, mism}, {`"2026-13-01"`, mism}, {`"2026-00-01"`, mism}, {`"2026-01-00"`, mism}, {`"2100-02-29"`, mism}, {`""`, mism}, {"null", nulls}, {`"20x6-03-04"`, mism}}
	checkVerdicts(t, map[string]verdicts{
		"Date": {[][3]string{{`"1970-01-01"`, "0000", `"1970-01-01"`}, {`"2149-06-06"`, "ffff", `"2149-06-06"`}},
			append([][2]string{{`"1969-12-31"`, rang}, {`"2149-06-07"`, rang}, {`"2200-01-01"`, rang}}, refused...)},
		"Date32": {[][3]string{{`"1900-01-01"`, "219cffff", `"1900-01-01"`}, {`"1969-12-31"`, "ffffffff", `"1969-12-31"`}, {`"2299-12-31"`, "d1d60100", `"2299-12-31"`}},
			append([][2]string{{`"1899-12-31"`, rang}, {`"2300-01-01"`, rang}}, refused...)},
	})
}

func TestCivilDaysAgreeWithTheLibrary(t *testing.T) {
	for days := int64(-30_000); days < 130_000; days++ {
		at := time.Unix(days*secondsPerDay, 0).UTC()
		d := dateOf(days)
		require.Equal(t, at.Format(time.DateOnly), string(appendDate(nil, d)))
		require.Equal(t, days, daysOf(d))
		require.True(t, d.valid())
	}
}

func TestDateTimes(t *testing.T) {
	refused := [][2]string{
		{`"2026-03-04T05:06:60Z"`, mism}, {`"2026-03-04T24:00:00Z"`, mism}, {`"2026-02-30T00:00:00Z"`, mism}, {`"2026-02-30"`, mism}, {`"2026-03-04T05:06:07 CET"`, mism},
		{`"2026-03-04T05:06:07+2"`, mism}, {`"2026-03-04T05:06:07*0200"`, mism}, {`"2026-03-04T05:06:07+02:60"`, mism}, {`"2026-03-04T05:06:07."`, mism}, {`"2026-03-04T"`, mism}, {`"2026-03-04Z"`, mism}, {`"2026-03-04T5:06:07"`, mism},
		{`"2026-03-04T05:0x:07Z"`, mism}, {`"now"`, mism}, {`""`, mism}, {`"."`, mism}, {`".5"`, mism}, {`"20260304"`, mism}, {"1e9", mism}, {"1e0", mism}, {"true", mism}, {"null", nulls}, {"[]", mism},
		{"177000000000000000000000", rang}, {"99999999999999999999", rang}, {"1769904000250.5", mism},
	}
	with := func(more ...[2]string) [][2]string { return append(more, refused...) }
	checkVerdicts(t, map[string]verdicts{
		"DateTime": {[][3]string{
			{`"2026-02-01T00:00:00Z"`, "80977e69", `"2026-02-01T00:00:00Z"`}, {"1769904000", "80977e69", `"2026-02-01T00:00:00Z"`}, {`"1769904000"`, "80977e69", `"2026-02-01T00:00:00Z"`}, {"1769904000000", "80977e69", `"2026-02-01T00:00:00Z"`},
			{"1769904000000000", "80977e69", `"2026-02-01T00:00:00Z"`}, {"1769904000000000000", "80977e69", `"2026-02-01T00:00:00Z"`}, {"1769904000.0", "80977e69", `"2026-02-01T00:00:00Z"`},
			{`"2026-02-01T02:00:00.000+02:00"`, "80977e69", `"2026-02-01T00:00:00Z"`}, {`"2026-01-31 19:30:00-0430"`, "80977e69", `"2026-02-01T00:00:00Z"`}, {`"2026-02-01 00:00"`, "80977e69", `"2026-02-01T00:00:00Z"`}, {`"2026-02-01"`, "80977e69", `"2026-02-01T00:00:00Z"`}, {`"2026-02-01t00:00:00z"`, "80977e69", `"2026-02-01T00:00:00Z"`},
			{"0", "00000000", `"1970-01-01T00:00:00Z"`}, {"4294967295", "ffffffff", `"2106-02-07T06:28:15Z"`}, {`"2106-02-07T06:28:15Z"`, "ffffffff", `"2106-02-07T06:28:15Z"`}},
			with([2]string{"-1", rang}, [2]string{"4294967296", rang}, [2]string{`"2200-01-01T00:00:00Z"`, rang}, [2]string{`"2106-02-07T06:28:16Z"`, rang}, [2]string{`"1969-12-31T23:59:59Z"`, rang}, [2]string{"1769904000250", mism}, [2]string{"1769904000.5", mism}, [2]string{`"2026-02-01T00:00:00.1Z"`, mism})},
		"DateTime64(3)": {nil,
			with([2]string{`"1899-12-31T23:59:59.999Z"`, rang}, [2]string{`"2300-01-01T00:00:00Z"`, rang}, [2]string{`"2026-03-04T05:06:07.0899Z"`, mism}, [2]string{"1769904000.2501", mism}, [2]string{"1769904000250001", mism}, [2]string{`"2026-03-04T05:06:07.0890000001Z"`, mism})},
		"DateTime64(9, 'UTC')": {[][3]string{{`"2262-04-11T23:47:16.854775807Z"`, "ffffffffffffff7f", `"2262-04-11T23:47:16.854775807Z"`}},
			with([2]string{`"2262-04-11T23:47:16.854775808Z"`, rang}, [2]string{`"2300-01-01T00:00:00Z"`, rang})},
	})
	for value, want := range map[string]string{
		`"2026-03-04T05:06:07.089Z"`: "2026-03-04T05:06:07.089Z", `"2026-03-04T05:06:07.0890000000000Z"`: "2026-03-04T05:06:07.089Z", `"2026-03-04T05:06:07.5+23:59"`: "2026-03-03T05:07:07.500Z",
		"1769904000250": "2026-02-01T00:00:00.250Z", "1769904000.25": "2026-02-01T00:00:00.250Z", "1769904000": "2026-02-01T00:00:00.000Z", "1769904000250000": "2026-02-01T00:00:00.250Z",
		"-1": "1969-12-31T23:59:59.000Z", "-1.5": "1969-12-31T23:59:58.500Z", "-0.25": "1969-12-31T23:59:59.750Z", `"1969-12-31T23:59:59.5Z"`: "1969-12-31T23:59:59.500Z", "0": "1970-01-01T00:00:00.000Z",
		`"1900-01-01T00:00:00Z"`: "1900-01-01T00:00:00.000Z", `"2299-12-31T23:59:59.999Z"`: "2299-12-31T23:59:59.999Z", "10413791999": "2299-12-31T23:59:59.000Z",
	} {
		assert.Equal(t, `"`+want+`"`, roundTrip(t, "DateTime64(3)", value, RenderOptions{}), value)
	}
}

func TestTimesWithoutAnOffsetAreInTheColumnsZone(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	for _, c := range []struct{ typeText, value, want string }{
		{"DateTime", `"2026-01-15 12:00:00"`, "2026-01-15T17:00:00Z"},
		{"DateTime", `"2026-07-15 12:00:00"`, "2026-07-15T16:00:00Z"},
		{"DateTime", `"2026-07-15"`, "2026-07-15T04:00:00Z"},
		{"DateTime('Asia/Tokyo')", `"2026-07-15 12:00:00"`, "2026-07-15T03:00:00Z"},
		{"DateTime('UTC')", `"2026-07-15 12:00:00"`, "2026-07-15T12:00:00Z"},
		{"DateTime64(3)", `"2026-07-15 12:00:00.5"`, "2026-07-15T16:00:00.500Z"},
		// Clocks show this twice; the first is meant, as ClickHouse does.
		{"DateTime", `"2026-11-01 01:30:00"`, "2026-11-01T05:30:00Z"},
		{"DateTime", `"2026-11-01 02:30:00"`, "2026-11-01T07:30:00Z"},
	} {
		codec, err := NewCodec(c.typeText, newYork)
		require.NoError(t, err)
		encoded, err := codec.AppendJSON(nil, []byte(c.value))
		require.NoError(t, err)
		out, _, err := codec.RenderJSON(nil, encoded, RenderOptions{})
		require.NoError(t, err)
		assert.Equal(t, `"`+c.want+`"`, string(out), "%+v", c)
	}
	codec, err := NewCodec("DateTime", newYork)
	require.NoError(t, err)
	_, err = codec.AppendJSON(nil, []byte(`"2026-03-08 02:30:00"`))
	require.ErrorContains(t, err, "clocks skip it")

	codec, err = NewCodec("DateTime('Moon/Base')", newYork)
	require.NoError(t, err)
	_, err = codec.AppendJSON(nil, []byte(`"2026-03-08 02:30:00"`))
	require.ErrorContains(t, err, "no offset")
	_, err = codec.AppendJSON(nil, []byte(`"2026-03-08T02:30:00Z"`))
	require.NoError(t, err)
}

func TestComposites(t *testing.T) {
	deepEnough := strings.Repeat(`"x",`, 199) + `"x"`
	checkVerdicts(t, map[string]verdicts{
		"Array(UInt8)": {[][3]string{{"[]", "00", "[]"}, {"[ ]", "00", "[]"}, {"[1,2]", "020102", "[1,2]"}, {"[ 1 , 2 ]", "020102", "[1,2]"}},
			[][2]string{{"[1,null]", nulls}, {"[1,300]", rang}, {`"[1]"`, mism}, {"{}", mism}, {"null", nulls}, {"[[1]]", mism}, {"1", mism}}},
		"Array(Nullable(UInt8))": {[][3]string{{"[1,null]", "02000101", "[1,null]"}}, nil},
		"Array(String)":          {[][3]string{{"[" + deepEnough + "]", "c801" + strings.Repeat("0178", 200), "[" + deepEnough + "]"}, {`["a]","\"[,"]`, "0202615d03225b2c", `["a]","\"[,"]`}}, nil},
		"Array(Array(Bool))":     {[][3]string{{"[[true],[],[0,1]]", "0301010002" + "0001", "[[true],[],[false,true]]"}}, nil},
		"Map(String, UInt8)": {[][3]string{{"{}", "00", "{}"}, {`{"a":1, "b" : 2}`, "02016101016202", `{"a":1,"b":2}`}},
			[][2]string{{`{"a":1,"a":2}`, CodeDuplicateColumn}, {`{"a":1,"\u0061":2}`, CodeDuplicateColumn}, {"[]", mism}, {`{"a":null}`, nulls}, {`{"a":300}`, rang}, {"null", nulls}}},
		"Map(Int32, String)":                        {[][3]string{{`{"1":"x"}`, "01010000000178", `{"1":"x"}`}}, [][2]string{{`{"1":"x","01":"y"}`, CodeDuplicateColumn}, {`{"x":"y"}`, mism}, {`{"1e2":"y"}`, mism}}},
		"Map(LowCardinality(String), Array(UInt8))": {[][3]string{{`{"a":[1],"b":[]}`, "020161" + "0101" + "016200", `{"a":[1],"b":[]}`}}, nil},
		"Map(Float64, UInt8)":                       {[][3]string{{`{"nan":1}`, "01000000000000f87f01", `{"nan":1}`}}, nil},
		"Map(Date, Bool)":                           {[][3]string{{`{"1970-01-02":true}`, "01010001", `{"1970-01-02":true}`}}, nil},
		"Map(Bool, UInt64)":                         {[][3]string{{`{"true":1}`, "01010100000000000000", `{"true":1}`}}, nil},
		"Tuple(UInt8, String)":                      {[][3]string{{`[1,"a"]`, "010161", `[1,"a"]`}}, [][2]string{{"[1]", mism}, {`[1,"a",2]`, mism}, {`{"1":1,"2":"a"}`, mism}, {`[300,"a"]`, rang}, {"null", nulls}}},
		"Tuple(a UInt8, b Nullable(String), `c\\`d` Bool)": {[][3]string{
			{`{"a":1,"b":"x","c` + "`" + `d":true}`, "0100017801", `{"a":1,"b":"x","c` + "`" + `d":true}`}, {`{"c` + "`" + `d":true,"a":1}`, "010101", `{"a":1,"b":null,"c` + "`" + `d":true}`}, {`[1,null,false]`, "010100", `{"a":1,"b":null,"c` + "`" + `d":false}`}},
			[][2]string{{`{"b":"x"}`, CodeMissingColumn}, {`{"a":1,"c` + "`" + `d":true,"z":1}`, CodeUnknownColumn}, {`{"a":1,"a":2}`, CodeDuplicateColumn}, {`{"a":null,"c` + "`" + `d":true}`, nulls}, {"1", mism}}},
		"Nested(a UInt8, b Array(UInt8))": {[][3]string{{`[{"a":1,"b":[2]},{"a":3,"b":[]}]`, "0201010203" + "00", `[{"a":1,"b":[2]},{"a":3,"b":[]}]`}}, [][2]string{{`[{"a":1}]`, CodeMissingColumn}}},
		"Ring":                            {[][3]string{{"[[0,1.5]]", "010000000000000000000000000000f83f", "[[0,1.5]]"}}, [][2]string{{"[[0]]", mism}}},
	})
}

func TestManyMembersAndKeys(t *testing.T) {
	var names, object, wrong []string
	for i := range 40 {
		name := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		names, object = append(names, name+" UInt8"), append(object, `"`+name+`":7`)
	}
	wide := "Tuple(" + strings.Join(names, ", ") + ")"
	text := "{" + strings.Join(object, ",") + "}"
	assert.Equal(t, text, roundTrip(t, wide, text, RenderOptions{}))
	assert.Equal(t, text, roundTrip(t, "Map(String, UInt8)", text, RenderOptions{}))

	codec, err := NewCodec("Map(String, UInt8)", time.UTC)
	require.NoError(t, err)
	for _, at := range []int{0, 5, 13, 39} {
		wrong = append(append([]string{}, object...), object[at])
		_, err = codec.AppendJSON(nil, []byte("{"+strings.Join(wrong, ",")+"}"))
		require.ErrorContains(t, err, "more than once")
	}
}

func TestQuotedNumbersForJavaScript(t *testing.T) {
	quote := RenderOptions{Int64AsString: true}
	for _, c := range [][3]string{
		{"UInt64", "18446744073709551615", `"18446744073709551615"`}, {"Int64", "-1", `"-1"`}, {"Int32", "1", "1"}, {"Int256", "-5", `"-5"`}, {"UInt128", "5", `"5"`},
		{"Decimal(9, 1)", "1.5", `"1.5"`}, {"Array(Int64)", "[1]", `["1"]`}, {"Map(Int64, Int64)", `{"1":2}`, `{"1":"2"}`}, {"Map(Decimal(9, 2), Int8)", `{"1.50":2}`, `{"1.5":2}`},
		{"Tuple(a Nullable(UInt64))", `{"a":1}`, `{"a":"1"}`}, {"Float64", "1e300", "1e300"},
	} {
		assert.Equal(t, c[2], roundTrip(t, c[0], c[1], quote), c[0])
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		typeText, a, b string
		cmp            int
		ok             bool
	}{
		{"Int8", "-1", "1", -1, true}, {"UInt8", "255", "1", 1, true}, {"UInt64", "18446744073709551615", "1", 1, true}, {"Int128", "-2", "-1", -1, true}, {"Int128", "1", "-1", 1, true},
		{"Int256", "-1", "1", -1, true}, {"UInt256", "2", "10", -1, true}, {"Decimal(9,2)", "-1.5", "1", -1, true}, {"Decimal(38,2)", "1.5", "1.49", 1, true},
		{"Float64", "-0.0", "0", 0, true}, {"Float64", `"nan"`, `"nan"`, 0, false}, {"Float32", "1", `"inf"`, -1, true},
		{"String", `"a"`, `"ab"`, -1, true}, {"String", `"b"`, `"ab"`, 1, true}, {"FixedString(2)", `"a"`, `"ab"`, -1, true}, {"Bool", "true", "false", 1, true},
		{"UUID", `"00000000-0000-0001-0000-000000000002"`, `"00000000-0000-0002-0000-000000000001"`, 1, true},
		{"IPv4", `"2.0.0.1"`, `"1.0.0.2"`, 1, true}, {"IPv6", `"::1"`, `"::2"`, -1, true}, {"Date", `"2026-01-01"`, `"2025-01-01"`, 1, true}, {"Date32", `"1960-01-01"`, `"1970-01-01"`, -1, true},
		{"DateTime", "4294967295", "1", 1, true}, {"DateTime64(3)", "-1", "1", -1, true}, {"Enum8('a'=2,'b'=-1)", `"a"`, `"b"`, 1, true},
		{"Nullable(Int8)", "null", "null", 0, false}, {"Nullable(Int8)", "1", "null", 0, false}, {"Nullable(Int8)", "1", "2", -1, true},
		{"Array(Int8)", "[1]", "[1,2]", -1, true}, {"Array(Int8)", "[2]", "[1,2]", 1, true}, {"Array(Nullable(Int8))", "[null]", "[1]", 0, false}, {"Array(Int8)", "[]", "[]", 0, true},
		{"Tuple(Int8, String)", `[1,"b"]`, `[1,"a"]`, 1, true}, {"Tuple(Int8, String)", `[1,"a"]`, `[1,"a"]`, 0, true}, {"Map(String, Int8)", `{"a":1}`, `{"a":1}`, 0, false},
	} {
		codec, err := NewCodec(c.typeText, time.UTC)
		require.NoError(t, err)
		a, err := codec.AppendJSON(nil, []byte(c.a))
		require.NoError(t, err)
		b, err := codec.AppendJSON(nil, []byte(c.b))
		require.NoError(t, err)
		cmp, ok := codec.Compare(a, b)
		assert.Equal(t, c.ok, ok, "%+v", c)
		assert.Equal(t, c.cmp, cmp, "%+v", c)
		back, ok := codec.Compare(b, a)
		assert.Equal(t, c.ok, ok, "%+v", c)
		assert.Equal(t, -c.cmp, back, "%+v", c)
		_, ok = codec.Compare(a[:0], b)
		assert.False(t, ok && len(a) > 0, "an empty value compares: %+v", c)
		assert.Equal(t, c.a == "null", codec.IsNull(a))
	}
}

func TestTypesWithoutACodec(t *testing.T) {
	for _, typeText := range []string{
		"JSON", "Dynamic", "Variant(Int8, JSON)", "AggregateFunction(count)", "Future(1)", "Nothing", "Tuple()", "Array(JSON)", "Nullable(Future)",
		"Tuple(Int8, JSON)", "Map(Array(Int8), Int8)", "Map(String, JSON)", "Nested(a JSON)", "Array(Tuple())",
	} {
		codec, err := NewCodec(typeText, time.UTC)
		require.ErrorContains(t, err, "cannot be read here", typeText)
		require.Nil(t, codec, typeText)
	}
	_, err := NewCodec("Array(", time.UTC)
	require.Error(t, err)
}

// A short text for a long FixedString must not grow a body beyond bounds.
func TestEncodedSizeOfAValueIsBounded(t *testing.T) {
	for typeText, value := range map[string]string{
		"Array(FixedString(1000000))":       "[" + strings.Repeat(`"",`, 99) + `""]`,
		"Map(UInt8, FixedString(16000000))": `{"1":"","2":"","3":""}`,
	} {
		codec, err := NewCodec(typeText, time.UTC)
		require.NoError(t, err)
		_, err = codec.AppendJSON(nil, []byte(value))
		var fault *Error
		require.ErrorAs(t, err, &fault)
		assert.Equal(t, CodeTooLarge, fault.Code)
	}
}
