package pipes

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOutline(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT * FROM t\n  WHERE email = 'ann@example.com' -- hers\n AND n > 5": "SELECT * FROM t WHERE email = ? AND n > ?",
		"/* x */ INSERT INTO t VALUES (1, $tag$secret$tag$), (2e5, ‘x’)":         "INSERT INTO t VALUES (?, ?), (?, ?)",
		"SELECT `a b` FROM \"t\" WHERE x = {p:String}":                           "SELECT `a b` FROM \"t\" WHERE x = {p:String}",
		"SELECT 'not closed": "SELECT ?", "": "",
	} {
		assert.Equal(t, want, Outline(sql))
	}
}
