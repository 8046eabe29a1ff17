package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryDigitOf64Bits(t *testing.T) {
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

func TestIntegersOutOfRange(t *testing.T) {
	for _, c := range [][2]string{{"UInt8", "300"}, {"UInt8", `"256"`}, {"UInt8", "-1"}, {"Int32", "2147483648"}, {"UInt64", "18446744073709551616"}, {"UInt64", `"18446744073709551616"`}} {
		assert.Equal(t, CodeOutOfRange, verdict(t, c[0], c[1]), c)
	}
}

func TestDecimalAsANumber(t *testing.T) {
	assert.Equal(t, `{"v":271828.182845904523536028}`, verdict(t, "Decimal(38,18)", "271828.182845904523536028"))
	assert.Equal(t, `{"v":40817.29}`, verdict(t, "Decimal(18,2)", "40817.29"))
	assert.Equal(t, `{"v":0.001}`, verdict(t, "Decimal(18,4)", "1e-3"))
}

func TestMoreDigitsThanTheScale(t *testing.T) {
	assert.Equal(t, CodeTypeMismatch, verdict(t, "Decimal(18,2)", `"16.409"`))
	assert.Equal(t, `{"v":16.4}`, verdict(t, "Decimal(18,2)", `"16.400"`))
	assert.Equal(t, CodeOutOfRange, verdict(t, "Decimal(4,2)", "123.67"))
	assert.NotContains(t, verdict(t, "Decimal(4,2)", "12345.67"), "{")
}

// The unit is told by the number of digits, not by the server.
func TestUnitOfABareInteger(t *testing.T) {
	assert.Equal(t, `{"v":"2026-02-01T00:00:00.250Z"}`, verdict(t, "DateTime64(3,'UTC')", "1769904000250"))
	assert.Equal(t, `{"v":"2026-02-01T00:00:00.000Z"}`, verdict(t, "DateTime64(3,'UTC')", "1769904000"))
}

// A fraction finer than the column is refused, for nothing is cut in silence.
func TestOwnTimestampsFedBack(t *testing.T) {
	first := verdict(t, "DateTime64(3,'UTC')", `"2026-03-04T05:06:07.089Z"`)
	assert.Equal(t, `{"v":"2026-03-04T05:06:07.089Z"}`, first)
	assert.Equal(t, CodeTypeMismatch, verdict(t, "DateTime64(3,'UTC')", `"2026-03-04T05:06:07.0899+02:00"`))
	assert.Equal(t, `{"v":"2026-03-04T03:06:07.089Z"}`, verdict(t, "DateTime64(3,'UTC')", `"2026-03-04T05:06:07.0890+02:00"`))
}

func TestInstantsOutOfRange(t *testing.T) {
	for _, c := range [][2]string{{"DateTime('UTC')", `"2200-01-01T00:00:00Z"`}, {"DateTime('UTC')", "-1"}, {"DateTime64(9,'UTC')", `"2300-01-01T00:00:00Z"`}, {"Date", `"2200-01-01"`}} {
		assert.Equal(t, CodeOutOfRange, verdict(t, c[0], c[1]), c)
	}
}

func TestNullIntoAnEnum(t *testing.T) {
	table := Compile("k", columns("id UInt8", "k Enum8('a'=1,'b'=2)"), time.UTC)
	all := decodeAll(t, table, NDJSON, `{"id":1,"k":"a"}`+"\n"+`{"id":2,"k":null}`+"\n"+`{"id":3}`, DecodeOptions{})
	assert.Equal(t, []string{"", CodeNullNotAllowed, CodeMissingColumn}, codes(all))
	assert.Equal(t, []string{"k", "k"}, []string{all[1].Err.Column, all[2].Err.Column})
}

func TestUnknownEnumMember(t *testing.T) {
	assert.Equal(t, CodeTypeMismatch, verdict(t, "Enum8('a'=1,'b'=2)", `"c"`))
	assert.Equal(t, CodeTypeMismatch, verdict(t, "Enum8('a'=1,'b'=2)", "7"))
	assert.Equal(t, `{"v":"b"}`, verdict(t, "Enum8('a'=1,'b'=2)", "2"))
}

func TestNullInsideAnArray(t *testing.T) {
	assert.Equal(t, CodeNullNotAllowed, verdict(t, "Array(UInt8)", "[1,null]"))
	assert.Equal(t, CodeOutOfRange, verdict(t, "Array(UInt8)", "[1,300]"))
	assert.Equal(t, `{"v":[1,null]}`, verdict(t, "Array(Nullable(UInt8))", "[1,null]"))
}

func TestTextAndNumbersForBool(t *testing.T) {
	assert.Equal(t, `{"v":true}`, verdict(t, "Bool", `"true"`))
	assert.Equal(t, CodeTypeMismatch, verdict(t, "Bool", "2"))
	assert.Equal(t, `{"v":true}`, verdict(t, "Bool", "1"))
	assert.Equal(t, `{"v":true}`, verdict(t, "Bool", "true"))
}

func TestNaNAndInfinity(t *testing.T) {
	for value, want := range map[string]string{"NaN": CodeMalformed, "Infinity": CodeMalformed, "1e400": CodeOutOfRange} {
		all := decodeAll(t, Compile("t", columns("v Float64"), time.UTC), JSON, `{"v":`+value+`}`, DecodeOptions{})
		assert.Equal(t, []string{want}, codes(all), value)
	}
	assert.Equal(t, `{"v":null}`, verdict(t, "Float64", `"nan"`))
}

func TestOmittedAgainstNull(t *testing.T) {
	table := Compile("d", columns("id UInt8", "v Nullable(UInt8) DEFAULT 7", "w UInt8 DEFAULT 9"), time.UTC)
	all := decodeAll(t, table, NDJSON, `{"id":1}`+"\n"+`{"id":2,"v":null,"w":null}`, DecodeOptions{})
	assert.Equal(t, `{"id":1}`, all[0].JSON)
	assert.Equal(t, `{"id":2,"v":null}`, all[1].JSON)
}

func TestWhatAStringColumnTakes(t *testing.T) {
	for value, want := range map[string]string{
		`{"a":1}`: CodeTypeMismatch, "[1,2]": CodeTypeMismatch, "123": `{"v":"123"}`, "1.50": `{"v":"1.50"}`, "true": `{"v":"true"}`, "-1e+5": `{"v":"-1e+5"}`,
	} {
		assert.Equal(t, want, verdict(t, "String", value), value)
	}
}
