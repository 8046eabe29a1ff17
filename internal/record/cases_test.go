package record

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The cases of real reports, by their numbers. What a body becomes is judged
// here; the answers over HTTP are judged where those are made.

func TestC001_TwoObjectsOnOneLine(t *testing.T) {
	all := decodeAll(t, pages(), NDJSON, `{"event_id":"a1","page":"/x"}{"event_id":"a2","page":"/y"}`+"\n"+`{"event_id":"a3","page":"/z"}`, DecodeOptions{})
	assert.Equal(t, []string{CodeMalformed, ""}, codes(all))
	assert.Contains(t, all[0].Err.Message, "extra data")
	assert.Equal(t, `{"event_id":"a3","page":"/z"}`, all[1].JSON)
}

func TestC002_ArrayCutOff(t *testing.T) {
	body := `[{"event_id":"b1","page":"/1"},{"event_id":"b2","page":"/2"}`
	assert.Equal(t, CodeBodyMalformed, bodyCode(t, JSON, body))
	assert.Len(t, decodeAll(t, pages(), JSON, body+"]", DecodeOptions{}), 2)
	for _, cut := range []string{"[", `[{"event_id":"b1`, `[{"event_id":"b1"`, body + "]]", body + "] x", body + "}", `[{"page":"]"}`, `{"page":"/1"`, `{"page":"/1"} {}`, "5", "nul", `"x"`} {
		assert.Equal(t, CodeBodyMalformed, bodyCode(t, JSON, cut), cut)
	}
}

func TestC004_ElementsThatAreNoObjects(t *testing.T) {
	all := decodeAll(t, pages(), JSON, `[{"event_id":"d1","page":"/1"}, 5, null, [], "x", {"event_id":"d2","page":"/2"}]`, DecodeOptions{})
	assert.Equal(t, []string{"", CodeMalformed, CodeMalformed, CodeMalformed, CodeMalformed, ""}, codes(all))
	assert.Equal(t, 6, all[5].Index)
	assert.Equal(t, `{"event_id":"d2","page":"/2"}`, all[5].JSON)
}

func TestC005_EmptyBodiesAndBatches(t *testing.T) {
	for _, body := range []string{"", "\n \n", "\xEF\xBB\xBF", " \r\n\t"} {
		assert.Equal(t, CodeBodyEmpty, bodyCode(t, JSON, body))
		assert.Equal(t, CodeBodyEmpty, bodyCode(t, NDJSON, body))
	}
	for _, body := range []string{"[]", " [ ] \n"} {
		assert.Empty(t, decodeAll(t, pages(), JSON, body, DecodeOptions{}))
	}
}

func TestC006_ByteOrderMark(t *testing.T) {
	const mark = "\xEF\xBB\xBF"
	one := decodeAll(t, pages(), JSON, mark+`{"event_id":"e1","page":"/bom"}`, DecodeOptions{})
	require.Len(t, one, 1)
	assert.Equal(t, `{"event_id":"e1","page":"/bom"}`, one[0].JSON)
	two := decodeAll(t, pages(), NDJSON, mark+`{"event_id":"e1","page":"/1"}`+"\n"+`{"event_id":"e2","page":"/2"}`, DecodeOptions{})
	assert.Equal(t, []string{"", ""}, codes(two))
	later := decodeAll(t, pages(), NDJSON, `{"event_id":"e1","page":"/1"}`+"\n"+mark+`{"event_id":"e2","page":"/2"}`, DecodeOptions{})
	assert.Equal(t, []string{"", CodeMalformed}, codes(later))
}

func TestC018_RepeatedKey(t *testing.T) {
	table := Compile("m", columns("event_id String", "org String DEFAULT ''", "m Map(String, UInt8) DEFAULT map()"), time.UTC)
	for _, body := range []string{
		`{"event_id":"n1","org":"cedar","org":"birch"}`, `{"event_id":"n1","org":"birch","org":"cedar"}`, `{"event_id":"n1","org":"birch","\u006frg":"cedar"}`,
		`{"event_id":"n1","m":{"a":1,"b":2,"a":3}}`, `{"event_id":"n1","org":null,"org":"birch"}`,
	} {
		all := decodeAll(t, table, JSON, body, DecodeOptions{})
		require.Equal(t, []string{CodeDuplicateColumn}, codes(all), body)
		assert.NotEmpty(t, all[0].Err.Column)
	}
}

func TestC020_HalfASurrogatePair(t *testing.T) {
	for _, bad := range []string{`\ud83d`, `\ude00`, `\ud83dx`, `\ud83d\n`, `\ud83d\ud83d`, `\ud83d\u0041`, `\ud83d\u`} {
		all := decodeAll(t, pages(), NDJSON, `{"event_id":"p1","page":"`+bad+`"}`, DecodeOptions{})
		assert.Equal(t, []string{CodeMalformed}, codes(all), bad)
	}
	all := decodeAll(t, pages(), JSON, `{"event_id":"p2","page":"\ud83d\ude00"}`, DecodeOptions{})
	require.Equal(t, []string{""}, codes(all))
	assert.Equal(t, "\x02p2\x04\xF0\x9F\x98\x80", string(all[0].Row))
}

func TestC021_BytesThatAreNotUTF8(t *testing.T) {
	for _, bad := range []string{"ab\xFFc", "\xED\xA0\x80", "\xC0\xAF", "\xE2\x82", "12345678\xFF12345678"} {
		all := decodeAll(t, pages(), NDJSON, `{"event_id":"q1","page":"`+bad+`"}`, DecodeOptions{})
		require.Equal(t, []string{CodeMalformed}, codes(all))
		assert.Contains(t, all[0].Err.Message, "UTF-8")
	}
}

func TestC023_DeepNestingAndAbsurdNumbers(t *testing.T) {
	deep := strings.Repeat("[", 200_000)
	assert.Equal(t, CodeBodyMalformed, bodyCode(t, JSON, `{"event_id":"r1","page":`+deep))
	closed := deep + strings.Repeat("]", 200_000)
	for _, body := range []string{
		`{"event_id":"r1","page":` + closed + `}`, `{"event_id":"r2","n":1e999999999}`, `{"event_id":"r3","n":` + strings.Repeat("9", 100_000) + `}`, `{"event_id":"r4","n":0.` + strings.Repeat("0", 100_000) + `1}`,
	} {
		all := decodeAll(t, pages(), NDJSON, body+"\n"+`{"event_id":"ok","page":"/"}`, DecodeOptions{})
		require.Len(t, all, 2)
		assert.NotNil(t, all[0].Err)
		assert.Nil(t, all[1].Err)
		assert.Less(t, len(all[0].Err.Message), 300)
		assert.Len(t, decodeAll(t, pages(), JSON, "["+body+"]", DecodeOptions{}), 1)
	}
	nested := func(n int) string {
		return `{"event_id":"r5","page":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	all := decodeAll(t, pages(), NDJSON, nested(63)+"\n"+nested(64), DecodeOptions{})
	assert.Equal(t, []string{CodeTypeMismatch, CodeMalformed}, codes(all))
	assert.Contains(t, all[1].Err.Message, "deeper than 64")
}

func TestC024_WindowsLinesAndBlankLines(t *testing.T) {
	all := decodeAll(t, pages(), NDJSON, `{"event_id":"s1","page":"/1"}`+"\r\n\r\n   \r\n"+`{"event_id":"s2","page":"/2"}`+"\r\n"+`{"event_id":"s3","page":"/3"}`, DecodeOptions{})
	assert.Equal(t, []string{"", "", ""}, codes(all))
	for i, r := range all {
		assert.Equal(t, i+1, r.Index)
	}
}

func TestC025_RecordThatIsTooLarge(t *testing.T) {
	line := func(page string) string { return `{"event_id":"t","page":"` + page + `"}` + "\n" }
	all := decodeAll(t, pages(), NDJSON, line("/1")+line(strings.Repeat("x", 3<<20))+line("/3"), DecodeOptions{})
	assert.Equal(t, []string{"", CodeTooLarge, ""}, codes(all))
	assert.Contains(t, all[1].Err.Message, "524288 bytes")
	all = decodeAll(t, pages(), NDJSON, line("123456")+line("1234567"), DecodeOptions{MaxRecordBytes: 9})
	assert.Equal(t, []string{"", CodeTooLarge}, codes(all))
}

func TestC027_EveryDigitOf64Bits(t *testing.T) {
	table := Compile("u", columns("v UInt64"), time.UTC)
	all := decodeAll(t, table, NDJSON, `{"v":18446744073709551615}`+"\n"+`{"v":9007199254740993}`+"\n"+`{"v":"18446744073709551615"}`+"\n"+`{"v":"9007199254740993"}`, DecodeOptions{})
	for i, want := range []string{"18446744073709551615", "9007199254740993", "18446744073709551615", "9007199254740993"} {
		require.Nil(t, all[i].Err)
		assert.Equal(t, `{"v":`+want+`}`, all[i].JSON)
	}
}

// verdict is the code of one value of one column.
func verdict(t *testing.T, column, value string) string {
	t.Helper()
	all := decodeAll(t, Compile("t", columns("v "+column), time.UTC), JSON, `{"v":`+value+`}`, DecodeOptions{})
	require.Len(t, all, 1)
	if all[0].Err == nil {
		return all[0].JSON
	}
	assert.Equal(t, "v", all[0].Err.Column)
	return all[0].Err.Code
}

func TestC028_IntegersOutOfRange(t *testing.T) {
	for _, c := range [][2]string{{"UInt8", "300"}, {"UInt8", `"256"`}, {"UInt8", "-1"}, {"Int32", "2147483648"}, {"UInt64", "18446744073709551616"}, {"UInt64", `"18446744073709551616"`}} {
		assert.Equal(t, CodeOutOfRange, verdict(t, c[0], c[1]), c)
	}
}

func TestC030_DecimalAsANumber(t *testing.T) {
	assert.Equal(t, `{"v":271828.182845904523536028}`, verdict(t, "Decimal(38,18)", "271828.182845904523536028"))
	assert.Equal(t, `{"v":40817.29}`, verdict(t, "Decimal(18,2)", "40817.29"))
	assert.Equal(t, `{"v":0.001}`, verdict(t, "Decimal(18,4)", "1e-3"))
}

func TestC031_MoreDigitsThanTheScale(t *testing.T) {
	assert.Equal(t, CodeTypeMismatch, verdict(t, "Decimal(18,2)", `"16.409"`))
	assert.Equal(t, `{"v":16.4}`, verdict(t, "Decimal(18,2)", `"16.400"`))
	assert.Equal(t, CodeOutOfRange, verdict(t, "Decimal(4,2)", "123.67"))
	assert.NotContains(t, verdict(t, "Decimal(4,2)", "12345.67"), "{")
}

// The unit is told by the number of digits, not by the server.
func TestC032_UnitOfABareInteger(t *testing.T) {
	assert.Equal(t, `{"v":"2026-02-01T00:00:00.250Z"}`, verdict(t, "DateTime64(3,'UTC')", "1769904000250"))
	assert.Equal(t, `{"v":"2026-02-01T00:00:00.000Z"}`, verdict(t, "DateTime64(3,'UTC')", "1769904000"))
}

// A fraction finer than the column is refused, for nothing is cut in silence.
func TestC034_OwnTimestampsFedBack(t *testing.T) {
	first := verdict(t, "DateTime64(3,'UTC')", `"2026-03-04T05:06:07.089Z"`)
	assert.Equal(t, `{"v":"2026-03-04T05:06:07.089Z"}`, first)
	assert.Equal(t, CodeTypeMismatch, verdict(t, "DateTime64(3,'UTC')", `"2026-03-04T05:06:07.0899+02:00"`))
	assert.Equal(t, `{"v":"2026-03-04T03:06:07.089Z"}`, verdict(t, "DateTime64(3,'UTC')", `"2026-03-04T05:06:07.0890+02:00"`))
}

func TestC035_InstantsOutOfRange(t *testing.T) {
	for _, c := range [][2]string{{"DateTime('UTC')", `"2200-01-01T00:00:00Z"`}, {"DateTime('UTC')", "-1"}, {"DateTime64(9,'UTC')", `"2300-01-01T00:00:00Z"`}, {"Date", `"2200-01-01"`}} {
		assert.Equal(t, CodeOutOfRange, verdict(t, c[0], c[1]), c)
	}
}

func TestC037_NullIntoAnEnum(t *testing.T) {
	table := Compile("k", columns("id UInt8", "k Enum8('a'=1,'b'=2)"), time.UTC)
	all := decodeAll(t, table, NDJSON, `{"id":1,"k":"a"}`+"\n"+`{"id":2,"k":null}`+"\n"+`{"id":3}`, DecodeOptions{})
	assert.Equal(t, []string{"", CodeNullNotAllowed, CodeMissingColumn}, codes(all))
	assert.Equal(t, []string{"k", "k"}, []string{all[1].Err.Column, all[2].Err.Column})
}

func TestC038_UnknownEnumMember(t *testing.T) {
	assert.Equal(t, CodeTypeMismatch, verdict(t, "Enum8('a'=1,'b'=2)", `"c"`))
	assert.Equal(t, CodeTypeMismatch, verdict(t, "Enum8('a'=1,'b'=2)", "7"))
	assert.Equal(t, `{"v":"b"}`, verdict(t, "Enum8('a'=1,'b'=2)", "2"))
}

func TestC039_NullInsideAnArray(t *testing.T) {
	assert.Equal(t, CodeNullNotAllowed, verdict(t, "Array(UInt8)", "[1,null]"))
	assert.Equal(t, CodeOutOfRange, verdict(t, "Array(UInt8)", "[1,300]"))
	assert.Equal(t, `{"v":[1,null]}`, verdict(t, "Array(Nullable(UInt8))", "[1,null]"))
}

func TestC040_TextAndNumbersForBool(t *testing.T) {
	assert.Equal(t, `{"v":true}`, verdict(t, "Bool", `"true"`))
	assert.Equal(t, CodeTypeMismatch, verdict(t, "Bool", "2"))
	assert.Equal(t, `{"v":true}`, verdict(t, "Bool", "1"))
	assert.Equal(t, `{"v":true}`, verdict(t, "Bool", "true"))
}

func TestC042_NaNAndInfinity(t *testing.T) {
	for value, want := range map[string]string{"NaN": CodeMalformed, "Infinity": CodeMalformed, "1e400": CodeOutOfRange} {
		all := decodeAll(t, Compile("t", columns("v Float64"), time.UTC), JSON, `{"v":`+value+`}`, DecodeOptions{})
		assert.Equal(t, []string{want}, codes(all), value)
	}
	assert.Equal(t, `{"v":null}`, verdict(t, "Float64", `"nan"`))
}

func TestC043_OmittedAgainstNull(t *testing.T) {
	table := Compile("d", columns("id UInt8", "v Nullable(UInt8) DEFAULT 7", "w UInt8 DEFAULT 9"), time.UTC)
	all := decodeAll(t, table, NDJSON, `{"id":1}`+"\n"+`{"id":2,"v":null,"w":null}`, DecodeOptions{})
	assert.Equal(t, `{"id":1}`, all[0].JSON)
	assert.Equal(t, `{"id":2,"v":null}`, all[1].JSON)
}

func TestC046_WhatAStringColumnTakes(t *testing.T) {
	for value, want := range map[string]string{
		`{"a":1}`: CodeTypeMismatch, "[1,2]": CodeTypeMismatch, "123": `{"v":"123"}`, "1.50": `{"v":"1.50"}`, "true": `{"v":"true"}`, "-1e+5": `{"v":"-1e+5"}`,
	} {
		assert.Equal(t, want, verdict(t, "String", value), value)
	}
}

// Memory must not grow with what a body only promises.
func TestRefusedBodiesHoldNoMemory(t *testing.T) {
	body := "[" + strings.Repeat("1,", 1<<17) + "1]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := pages().NewDecoder(JSON, []byte(body), DecodeOptions{})
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2*len(body)))
	n := 0
	for d.Next() {
		n++
		require.NotNil(t, d.Record().Err)
	}
	assert.Equal(t, 1<<17+1, n)
}
