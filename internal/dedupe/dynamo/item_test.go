package dynamo

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

func TestKeysOfDifferentIDsDiffer(t *testing.T) {
	long := strings.Repeat("x", 2000)
	seen := map[string][3]string{}
	for _, s := range []dedupe.Scope{
		{Tenant: "0", Table: "a"}, {Tenant: "0", Table: "a/"}, {Tenant: "0", Table: "a%"}, {Tenant: "0", Table: "a%2F"},
		{Tenant: "0", Table: ""}, {Tenant: "0a", Table: ""}, {Tenant: "0", Table: long}, {Tenant: "0", Table: long + "r"},
		{Tenant: "0", Table: "#"},
	} {
		for _, id := range []string{"", "r", "/r", "%", "%25", "#", "\x00", "\xff", "ö", long, long + "y", strings.Repeat("\xff", 400)} {
			k := keyOf(s, id)
			other, taken := seen[k]
			assert.False(t, taken, "%.20q %.20q has the key of %.20q", s, id, other)
			seen[k] = [3]string{string(s.Tenant), s.Table, id}
			assert.LessOrEqual(t, len(k), maxKey)
			assert.True(t, utf8.ValidString(k))
		}
	}
	assert.Equal(t, "birch/pages/rorder-1001", keyOf(dedupe.Scope{Tenant: "birch", Table: "pages"}, "rorder-1001"))
	assert.Equal(t, "birch/a%2Fb%25/r%20%23%F6", keyOf(dedupe.Scope{Tenant: "birch", Table: "a/b%"}, "r #\xf6"))
}
