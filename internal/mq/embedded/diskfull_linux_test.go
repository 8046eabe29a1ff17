package embedded

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
	"github.com/wavehouse/wavehouse/internal/volumetest"
)

// TestDiskFullBelowTheWatch fills a real volume that the watch believes to be
// empty: nothing that was answered is lost, and writing goes on once there is
// room.
func TestDiskFullBelowTheWatch(t *testing.T) {
	volume := volumetest.Small(t, "6m")
	dir := volume.Dir
	plenty := func() (uint64, uint64, error) { return 1 << 40, 1 << 40, nil }
	b := start(t, Options{Dir: dir, FreeSpace: plenty, PublishTimeout: 200 * time.Millisecond,
		WatchInterval: 20 * time.Millisecond, lostAfter: 300 * time.Millisecond, resetEvery: 100 * time.Millisecond})
	put(t, b, "cedar", "before")
	body := string(make([]byte, 200<<10))
	var stored []mq.Position
	for n := 0; ; n++ {
		pos, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", body))
		if err != nil {
			require.ErrorIs(t, err, mq.ErrOutcomeUnknown, "the server does not answer after a failed write")
			break
		}
		stored = append(stored, pos)
		require.Less(t, n, 100)
	}
	volume.Resize(t, "64m")
	for _, id := range []tenant.ID{"birch", "cedar"} {
		require.Eventually(t, func() bool {
			_, err := b.Publish(t.Context(), mqtest.Chunk(id, "t", "room again"))
			return err == nil
		}, 30*time.Second, 20*time.Millisecond)
	}
	in, c := consumeInto(t, b)
	seen := map[mq.Position]bool{}
	require.Eventually(t, func() bool {
		for _, d := range in.list() {
			if d.Chunk().Tenant == "birch" {
				seen[d.Position()] = true
			}
		}
		return len(seen) > len(stored)
	}, 20*time.Second, 10*time.Millisecond)
	for _, pos := range stored {
		require.True(t, seen[pos], fmt.Sprint(pos))
	}
	require.NoError(t, c.Ack(in.list()...))
}
