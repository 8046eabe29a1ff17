package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each value is in RowBinary the place of its type, by name, and the value.
func TestValuesOfAVariantKeepTheirKind(t *testing.T) {
	for typeText, values := range map[string]map[string]string{
		"Variant(UInt8, String)":           {`7`: "\x01\x07", `"7"`: "\x00\x017", `""`: "\x00\x00", `null`: "\xff", `300`: CodeTypeMismatch, `true`: CodeTypeMismatch, `{}`: CodeTypeMismatch},
		"Variant(String, Bool)":            {`true`: "\x00\x01", `"true"`: "\x01\x04true", `1`: "\x01\x011"},
		"Variant(UInt8, Bool)":             {`1`: "\x01\x01", `true`: "\x00\x01", `"1"`: "\x01\x01"},
		"Variant(String, DateTime('UTC'))": {`"1970-01-01T00:00:01Z"`: "\x00\x01\x00\x00\x00", `"1"`: "\x01\x011", `"x"`: "\x01\x01x", `1`: CodeTypeMismatch},
		"Variant(Float64, UInt8)":          {`1`: "\x01\x01", `256`: "\x00\x00\x00\x00\x00\x00\x00\x70\x40"},
		"Variant(FixedString(2), String)":  {`"a"`: "\x01\x01a", `"ab"`: "\x01\x02ab"},
		"Array(Variant(UInt8, String))":    {`["7",7,null]`: "\x03\x00\x017\x01\x07\xff"},
		"Tuple(a Variant(UInt8), b UInt8)": {`{"b":1}`: "\xff\x01", `{"a":2,"b":1}`: "\x00\x02\x01"},
		"Variant(Array(UInt8), Map(String, UInt8), Tuple(a UInt8, b String))": {
			`{"a":1,"b":"x"}`: "\x02\x01\x01x", `{"b":1}`: "\x01\x01\x01b\x01", `[1,"2"]`: "\x02\x01\x012", `[1,2]`: "\x00\x02\x01\x02", `["1"]`: "\x00\x01\x01", `[]`: "\x00\x00",
		},
	} {
		codec, err := NewCodec(typeText, time.UTC)
		require.NoError(t, err, typeText)
		for value, want := range values {
			encoded, err := codec.AppendJSON([]byte("kept"), []byte(value))
			if err != nil {
				var fault *Error
				require.ErrorAs(t, err, &fault)
				assert.Equal(t, want, fault.Code, "%s %s", typeText, value)
				assert.Equal(t, "kept", string(encoded))
				continue
			}
			assert.Equal(t, want, string(encoded[4:]), "%s %s", typeText, value)
			n, err := codec.Skip(encoded[4:])
			require.NoError(t, err)
			assert.Equal(t, len(want), n)
			shown, n, err := codec.RenderJSON(nil, encoded[4:], RenderOptions{})
			require.NoError(t, err)
			assert.Equal(t, len(want), n)
			again, err := codec.AppendJSON(nil, shown)
			require.NoError(t, err)
			assert.Equal(t, want, string(again), "%s is shown as %s", value, shown)
			assert.Equal(t, value == "null", codec.IsNull(encoded[4:]))
		}
		for _, broken := range []string{"", "\x09"} {
			_, err := codec.Skip([]byte(broken))
			require.Error(t, err)
			_, _, err = codec.RenderJSON(nil, []byte(broken), RenderOptions{})
			require.Error(t, err)
		}
	}
}

func TestFieldsOfAVariant(t *testing.T) {
	codec, err := NewCodec("Variant(UInt8, String)", time.UTC)
	require.NoError(t, err)
	array, err := NewCodec("Array(Variant(UInt8, String))", time.UTC)
	require.NoError(t, err)
	for _, c := range []struct {
		codec       Codec
		field, want string
	}{
		{codec, `7`, "\x01\x07"}, {codec, `text`, "\x00\x04text"}, {codec, `null`, "\x00\x04null"}, {codec, ``, "\x00\x00"},
		{array, `['7',7,NULL,'it\'s']`, "\x04\x00\x017\x01\x07\xff\x00\x04it's"}, {array, `["7",7]`, "\x02\x00\x017\x01\x07"},
	} {
		encoded, err := c.codec.AppendText(nil, []byte(c.field))
		require.NoError(t, err, c.field)
		assert.Equal(t, c.want, string(encoded), c.field)
	}
	_, err = array.AppendText(nil, []byte("['7"))
	require.Error(t, err)

	table := Compile("t", columns("v Variant(UInt8, String)", "n Nullable(UInt8)"), time.UTC)
	for format, body := range map[InputFormat]string{CSV: "v,n\n\\N,\\N\n7,7\n", TSV: "v\tn\n\\N\t\\N\n7\t7\n"} {
		all := decodeAll(t, table, format, body, DecodeOptions{})
		require.Equal(t, []string{"", ""}, codes(all))
		assert.Equal(t, []string{"\xff\x01", "\x01\x07\x00\x07"}, []string{string(all[0].Row), string(all[1].Row)})
	}
}
