package embedded

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

func TestAcknowledgedOverARestart(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	floor, inherited, err := b.Acknowledged(t.Context(), "birch")
	require.NoError(t, err)
	assert.True(t, floor.IsZero())
	assert.True(t, inherited.IsZero())

	var got box[mq.Delivery]
	c, err := b.Consume(t.Context(), mq.ConsumeOptions{}, got.add)
	require.NoError(t, err)
	var at []mq.Position
	for _, body := range []string{"a", "b", "c"} {
		at = append(at, put(t, b, "birch", body))
	}
	all := got.await(t, 3)
	require.NoError(t, c.Ack(all[0], all[2]))
	floor, inherited, err = b.Acknowledged(t.Context(), "birch")
	require.NoError(t, err)
	assert.Equal(t, at[0], floor, "the second is not acknowledged")
	assert.Zero(t, seqOf(inherited), "this process wrote them all")
	require.NoError(t, b.Close(context.Background()))

	b = start(t, Options{Dir: dir})
	floor, inherited, err = b.Acknowledged(t.Context(), "birch")
	require.NoError(t, err)
	assert.Equal(t, at[0], floor)
	assert.Equal(t, at[2], inherited)
	require.NoError(t, b.Close(context.Background()))
	_, _, err = b.Acknowledged(t.Context(), "birch")
	require.ErrorIs(t, err, mq.ErrClosed)
}
