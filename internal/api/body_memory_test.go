package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// TestBodyMemoryLeavesRoomForOthers: tenants that take all they can get share,
// and one that comes later finds room.
func TestBodyMemoryLeavesRoomForOthers(t *testing.T) {
	const total, piece = 1200, 10
	m := newBodyMemory(total)
	greedy := []tenant.ID{"birch", "cedar", "elm"}
	for n := 1; n <= len(greedy); n++ {
		for range total {
			for _, id := range greedy[:n] {
				m.take(id, piece)
			}
		}
		require.LessOrEqual(t, m.used, int64(total-total>>n+n*piece), "%d tenants", n)
		require.GreaterOrEqual(t, m.held[greedy[n-1]], int64(piece))
	}
	require.True(t, m.take("late", 100), "a large one too")
	require.False(t, m.take("later", total), "but not more than there is")
	for _, id := range append(greedy, "late") {
		m.release(id, m.held[id])
	}
	require.Zero(t, m.used)
	require.Empty(t, m.held)
	require.True(t, m.take("birch", total), "alone, the first may have it all")
}
