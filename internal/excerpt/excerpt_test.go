package excerpt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLongTextsAreCutBetweenRunes(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"short":                       "short",
		strings.Repeat("a", 64):       strings.Repeat("a", 64),
		strings.Repeat("a", 65):       strings.Repeat("a", 64) + "…",
		"a" + strings.Repeat("é", 40): "a" + strings.Repeat("é", 31) + "…",
		strings.Repeat("\x80", 70):    "…",
	} {
		assert.Equal(t, want, Of(text))
		assert.Equal(t, want, Of([]byte(text)))
	}
	assert.Equal(t, "ab…", Cut("abc", 2))
}

func TestQuotedTextEscapesWhatDoesNotPrint(t *testing.T) {
	assert.Equal(t, `"a\nb"`, Quoted("a\nb"))
	assert.Equal(t, `"`+strings.Repeat("a", 64)+`"…`, Quoted(strings.Repeat("a", 65)))
}
