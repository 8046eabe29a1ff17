package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAColumnOfWhichAPartIsDeniedIsNotReadAsAWhole(t *testing.T) {
	g := newSelectGrant("r", &SelectDocument{DenyColumns: []string{"attrs.secret", `payload["a.b"].c`, "tags[1]", ".x", "[1]", "gone"}}, nil)
	for column, want := range map[string][]string{
		"attrs": {".secret"}, "payload": {`["a.b"].c`}, `payload["a`: {`.b"].c`}, `payload["a.b"]`: {".c"}, "tags": {"[1]"},
	} {
		assert.False(t, g.Allows(column), column)
		denied, ok := g.AllowsPartsOf(column)
		assert.True(t, ok, column)
		assert.Equal(t, want, denied, column)
	}
	for _, column := range []string{"attr", "attrs.secret.x", "attrs.other", "Attrs", "x", "tags[2]"} {
		denied, ok := g.AllowsPartsOf(column)
		assert.True(t, ok && g.Allows(column), column)
		assert.Empty(t, denied, column)
	}
	for _, column := range []string{"gone", "attrs.secret", "tags[1]"} {
		_, ok := g.AllowsPartsOf(column)
		assert.False(t, ok || g.Allows(column), column)
	}
	assert.False(t, g.EveryColumn())
	assert.False(t, g.ShowsCost(), "what ClickHouse reads for it holds what is denied")
	assert.True(t, newSelectGrant("r", &SelectDocument{DenyColumns: []string{"gone"}}, nil).ShowsCost())
	assert.True(t, newSelectGrant("r", &SelectDocument{DenyColumns: []string{"attrs.secret"}, ShowCost: true}, nil).ShowsCost())
	assert.False(t, newColumnRule([]string{"attrs"}, []string{"attrs.secret"}).none(), "parts of it are read")
	assert.True(t, newColumnRule([]string{"attrs"}, []string{"attrs.secret", "attrs"}).none())
	i := newInsertGrant(&InsertDocument{DenyColumns: []string{"attrs.secret"}}, nil)
	assert.False(t, i.Allows("attrs"), "records are taken by whole columns")
}
