package nearest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestName(t *testing.T) {
	known := []string{"max_rows", "max_bytes", "max_wait", "enabled", "port"}
	for _, c := range []struct{ name, want string }{
		{"max_row", "max_rows"},
		{"maxrows", "max_rows"},
		{"MAX_ROWS", "max_rows"},
		{"max_wiat", "max_wait"},
		{"enable", "enabled"},
		{"prot", "port"},
		{"host", ""},
		{"", ""},
		{"x", ""},
		{strings.Repeat("a", 65), ""},
	} {
		got, ok := Name(c.name, known)
		assert.Equal(t, c.want, got, "for %q", c.name)
		assert.Equal(t, c.want != "", ok, "for %q", c.name)
	}
}

func TestNameIgnoresKnownNamesTooLongToCompare(t *testing.T) {
	_, ok := Name("abc", []string{strings.Repeat("a", 200)})
	assert.False(t, ok)
}

func TestDistanceCountsASwapOnce(t *testing.T) {
	assert.Equal(t, 1, distance("ab", "ba"))
	assert.Equal(t, 3, distance("", "abc"))
	assert.Equal(t, 3, distance("kitten", "sitting"))
}
