package chunk

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Ids that are still to be claimed stand before the rows.
func TestIDsStandBeforeTheRows(t *testing.T) {
	withIDs := func(ids ...string) mq.Chunk {
		var head []byte
		for _, id := range ids {
			head = AppendID(head, id)
		}
		c := rowBinary(2, string(head)+"\x01\x02\x03\x04")
		c.IDs = len(head)
		return c
	}
	o := NewOpener()
	opened, err := o.Open(withIDs("a", ""))
	require.NoError(t, err)
	assert.Equal(t, []string{"a", ""}, opened.IDs)
	require.NoError(t, opened.Split())
	assert.Equal(t, "\x03\x04", string(opened.Slice(1, 2)))

	cut := withIDs("a", "b")
	cut.IDs--
	beyond := withIDs("a", "b")
	beyond.IDs = 100
	for name, c := range map[string]mq.Chunk{
		"one too few": withIDs("a"), "one too many": withIDs("a", "b", "c"), "cut": cut, "beyond the body": beyond,
	} {
		_, err := o.Open(c)
		assert.Error(t, err, name)
	}
}
