package tenant

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, good := range []string{"0", "birch", "A-b_9", strings.Repeat("x", MaxLen), "9007199254740993"} {
		id, err := Parse(good)
		require.NoError(t, err)
		require.Equal(t, good, id.String())
	}
	for _, bad := range []string{"", "..", "a/b", "a.b", "a b", "bïrch", "bіrch", "a%2f", "a\x00", strings.Repeat("x", MaxLen+1)} {
		_, err := Parse(bad)
		require.Error(t, err, "%q", bad)
	}
}
