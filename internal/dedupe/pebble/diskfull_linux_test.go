package pebble

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/volumetest"
)

// TestDiskFull fills a real volume: the store is unavailable, the process
// lives, and once there is room nothing that was answered is forgotten.
func TestDiskFull(t *testing.T) {
	volume := volumetest.Small(t, "3m")
	volume.MayBeHeld = true // an instance that was given up may have files open
	s := start(t, Options{Dir: filepath.Join(volume.Dir, "pebble"), Timeout: 2 * time.Second, OpenInterval: time.Millisecond, retryFull: 5 * time.Millisecond})
	value := []byte(strings.Repeat("v", dedupe.MaxValue))
	var stored []string
	for n := 0; ; n++ {
		require.Less(t, n, 500, "the volume never fills")
		id := strings.Repeat("i", n+1)
		if _, err := s.Reserve(t.Context(), pages, anna, []string{id}); err != nil {
			require.ErrorIs(t, err, dedupe.ErrUnavailable)
			break
		}
		if _, err := s.Commit(t.Context(), pages, anna, []dedupe.Entry{{ID: id, Value: value}}, 0); err != nil {
			require.ErrorIs(t, err, dedupe.ErrUnavailable)
			break
		}
		stored = append(stored, id)
	}
	require.NotEmpty(t, stored)
	_, err := reserveOne(t.Context(), s, "while it is full")
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	volume.Resize(t, "64m")
	require.Eventually(t, func() bool {
		state, err := reserveOne(t.Context(), s, "room again")
		return err == nil && state == dedupe.New
	}, time.Minute, 10*time.Millisecond)
	for _, id := range stored {
		state, err := reserveOne(t.Context(), s, id)
		require.NoError(t, err)
		require.Equal(t, dedupe.Duplicate, state)
	}
	require.Zero(t, s.givenUp)
}
