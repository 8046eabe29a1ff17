package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const layoutHeader = `[{"name":"a","type":"UInt8"},{"name":"b\"","type":"Array(String)"},{"name":"f","type":"Nullable(Float64)"}]`

func TestParseLayout(t *testing.T) {
	layout, err := ParseLayout(layoutHeader, time.UTC)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", `b"`, "f"}, layout.Names())
	assert.Equal(t, []string{"UInt8", "Array(String)", "Nullable(Float64)"}, layout.Types())
	assert.Len(t, layout.Codecs(), 3)
	assert.Equal(t, "\x03\x01a\x02b\"\x01f\x05UInt8\x0dArray(String)\x11Nullable(Float64)", string(layout.AppendNamesAndTypes(nil)))
	for _, bad := range []string{"", "{}", "[]", "null", `[{"name":"a","type":"JSON"}]`, `[{"name":"a","type":""}]`, `[{"name":"a","type":"Array("}]`, "[1]"} {
		_, err := ParseLayout(bad, time.UTC)
		require.Error(t, err, bad)
	}
}

func TestLayoutSlicesRows(t *testing.T) {
	layout, err := ParseLayout(layoutHeader, time.UTC)
	require.NoError(t, err)
	one, two := "\x01\x02\x01x\x00\x01", "\x02\x00\x00\x00\x00\x00\x00\x00\x00\xf8\x3f"
	body := []byte(one + two)

	n, err := layout.RowLen(body)
	require.NoError(t, err)
	assert.Equal(t, len(one), n)
	ends, err := layout.Ends(nil, body, 2)
	require.NoError(t, err)
	assert.Equal(t, []int{len(one), len(body)}, ends)
	fields, err := layout.FieldEnds(nil, body[:n])
	require.NoError(t, err)
	assert.Equal(t, []int{1, 5, 6}, fields)

	for _, rows := range []int{0, 1, 3} {
		_, err = layout.Ends(nil, body, rows)
		require.Error(t, err, rows)
	}
	_, err = layout.Ends(nil, body[:len(body)-1], 2)
	require.ErrorContains(t, err, "row 2 of 2")
	_, err = layout.FieldEnds(nil, body)
	require.ErrorContains(t, err, "left after")
	_, err = layout.FieldEnds(nil, body[:3])
	require.ErrorContains(t, err, `column "b""`)
}

func TestLayoutRendersRows(t *testing.T) {
	layout, err := ParseLayout(layoutHeader, time.UTC)
	require.NoError(t, err)
	row := []byte("\x01\x02\x01x\x00\x00\x01\x00\x00\x00\x00\x00\xf8\x7f")
	render := func(keep []int) string {
		out, err := layout.AppendObject([]byte("> "), row, keep, RenderOptions{})
		require.NoError(t, err)
		return string(out)
	}
	assert.Equal(t, `> {"a":1,"b\"":["x",""],"f":null}`, render(nil))
	assert.Equal(t, `> {"f":null,"a":1}`, render([]int{2, 0}))
	assert.Equal(t, `> {"b\"":["x",""]}`, render([]int{1}))
	assert.Equal(t, `> {}`, render([]int{}))
	out, err := layout.AppendCompact(nil, row)
	require.NoError(t, err)
	assert.Equal(t, `[1,["x",""],"nan"]`, string(out))

	for _, bad := range [][]byte{row[:2], append(append([]byte{}, row...), 0), nil} {
		for _, keep := range [][]int{nil, {0}} {
			out, err := layout.AppendObject([]byte("> "), bad, keep, RenderOptions{})
			require.Error(t, err)
			assert.Equal(t, "> ", string(out))
		}
		_, err = layout.AppendCompact(nil, bad)
		require.Error(t, err)
	}
	broken, err := ParseLayout(`[{"name":"e","type":"Enum8('a'=1)"}]`, time.UTC)
	require.NoError(t, err)
	_, err = broken.AppendObject(nil, []byte{2}, []int{0}, RenderOptions{})
	require.ErrorContains(t, err, `column "e"`)
}

func TestJSONStringsAsTheServerWritesThem(t *testing.T) {
	assert.Equal(t, `"\u0000\u0001\u0002\b\t\n\u000B\f\r\u001F \"\\/`+"\x7f\"", string(AppendJSONString(nil, "\x00\x01\x02\b\t\n\v\f\r\x1f \"\\/\x7f")))
	assert.Equal(t, "\"\xffab\xc3(\xe2\x82\"", string(AppendJSONString(nil, []byte("\xffab\xc3(\xe2\x82"))))
	assert.Equal(t, `"\u2028\u2029€`+"\xe2\x80\"", string(AppendJSONString(nil, "\u2028\u2029€\xe2\x80")))
	assert.Equal(t, `x""`, string(AppendJSONString([]byte("x"), "")))
}
