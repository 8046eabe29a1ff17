package coltype

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTypesWithNamesOfAnyBytesTravelAsText(t *testing.T) {
	for typ, names := range map[string][]string{
		"Enum8('a\xffb' = 1, '\xc3' = 2)":   {"a\xffb", "\xc3"},
		`Enum8('\\xFF' = 1, '\\\\x41' = 2)`: {`\xFF`, `\\x41`},
		"Enum8('\\\\\xfe' = 1)":             {"\\\xfe"},
		"Enum8('grün' = 1, '�' = 2)":        {"grün", "�"},
	} {
		text := InUTF8(typ)
		assert.True(t, utf8.ValidString(text))
		assert.Equal(t, typ, AsWritten(text))
		parsed, err := Parse(text)
		require.NoError(t, err, text)
		for i, name := range names {
			assert.Equal(t, name, parsed.Values[i].Name, text)
		}
	}
	assert.Equal(t, `Enum8('\x`, AsWritten(`Enum8('\x`))
}
