package dedupe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNamesOfDifferentThingsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{
		RecordID(nil, []byte("ab")), RecordID([]byte("a"), []byte("b")), RecordID([]byte("ab"), nil), RecordID([]byte("ab"), []byte("c")),
		RecordID([]byte("a"), []byte("bc")), RequestID("", nil, "ab"), RequestID("a", nil, "b"), RequestID("ab", nil, "b"),
		RequestID("a", []byte("b"), "b"), RequestID("", []byte("ab"), "b"), RequestID("a", []byte("b"), "c"),
	} {
		assert.False(t, seen[name], "%q", name)
		seen[name] = true
	}
	assert.Equal(t, RequestID("a", []byte("b"), "c"), RequestID("a", []byte("b"), "c"))
}

func TestKeysOfDifferentIDsDiffer(t *testing.T) {
	long := strings.Repeat("x", 2000)
	hashed := Key("", long)
	seen := map[string][2]string{}
	for _, scope := range []Scope{
		{Tenant: "0", Table: "a"}, {Tenant: "0", Table: "a\x00"}, {Tenant: "0", Table: "a\x01"}, {Tenant: "0", Table: "a\x01\x01"},
		{Tenant: "0a", Table: ""}, {Tenant: "0", Table: ""},
	} {
		for _, id := range []string{"", "i", "h", "\x00i", long, long + "y", hashed[1:], strings.Repeat("x", maxStoredID)} {
			key := Key(Prefix(scope), id)
			other, taken := seen[key]
			assert.False(t, taken, "%q %q has the key of %q", scope, id, other)
			seen[key] = [2]string{string(scope.Tenant) + "/" + scope.Table, id}
			assert.LessOrEqual(t, len(key), 1100)
		}
	}
}
