package embedded

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllowance(t *testing.T) {
	a := newAllowance(0, 1000)
	sources := []*source{{wake: make(chan struct{}, 1)}, {wake: make(chan struct{}, 1)}, {wake: make(chan struct{}, 1)}}
	require.EqualValues(t, 400, a.room(sources[0], 0, 400))
	a.take(400)
	require.EqualValues(t, 200, a.room(sources[0], 400, 400), "one tenant gets half")
	a.take(200)
	require.EqualValues(t, 0, a.room(sources[0], 600, 1))
	require.EqualValues(t, 400, a.room(sources[1], 0, 400), "the next still gets something")
	a.take(400)
	require.EqualValues(t, 1, a.room(sources[2], 0, 50), "whoever holds nothing gets one")
	a.give(10)
	require.Len(t, sources[0].wake, 1)
	require.Len(t, sources[2].wake, 1)
	limited := newAllowance(100, 1000)
	require.EqualValues(t, 40, limited.room(sources[0], 60, 400))
}
