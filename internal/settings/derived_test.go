package settings

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheNamesThatATextMentions(t *testing.T) {
	for sql, want := range map[string][]string{
		"toInt64(ip)":                   {"ip", "toInt64"},
		"concat('secret', `we ird`)":    {"concat", "we ird"},
		"SELECT * FROM shop.`ev``s`":    {"*", "FROM", "SELECT", "ev`s", "shop"},
		"SELECT e.* FROM e":             {"*", "FROM", "SELECT", "e"},
		"SELECT a * 2, b*c FROM t":      {"2", "FROM", "SELECT", "a", "b", "c", "t"},
		`'it\'s' || 'it''s' || "q"`:     {"q"},
		"count() + length('*') + größe": {"count", "größe", "length"},
		"`open":                         {"open"},
	} {
		assert.Equal(t, want, slices.Sorted(maps.Keys(named(sql))), sql)
	}
}
