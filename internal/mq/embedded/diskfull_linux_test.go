package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
	"github.com/wavehouse/wavehouse/internal/volumetest"
)

// TestDiskFullBelowTheWatch fills a real volume that the watch believes to be
// empty, with many publishes under way: each is answered at once, full means that
// the chunk is not stored, nothing that was answered is lost, and writing goes on
// soon after there is room.
func TestDiskFullBelowTheWatch(t *testing.T) {
	volume := volumetest.Small(t, "12m")
	b := start(t, Options{Dir: volume.Dir, FreeSpace: func() (uint64, uint64, error) { return 1 << 40, 1 << 40, nil }})
	put(t, b, "cedar", "before")
	var mu sync.Mutex
	stored, refused := map[mq.Position]bool{}, map[string]bool{}
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for n := 0; ; n++ {
				body := fmt.Sprint(w, " ", n, " ", strings.Repeat("x", 50<<10))
				began := time.Now()
				pos, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", body))
				mu.Lock()
				if err != nil {
					refused[body] = true
					mu.Unlock()
					assert.ErrorIs(t, err, mq.ErrFull)
					assert.Less(t, time.Since(began), b.o.PublishTimeout, "nobody waits for an answer that never comes")
					return
				}
				stored[pos] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.NotEmpty(t, stored)
	require.Len(t, refused, 8)
	_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", "still full"))
	require.ErrorIs(t, err, mq.ErrFull)
	volume.Resize(t, "64m")
	for _, id := range []tenant.ID{"birch", "cedar"} {
		require.Eventually(t, func() bool {
			_, err := b.Publish(t.Context(), mqtest.Chunk(id, "t", "room again"))
			return err == nil
		}, 15*time.Second, 20*time.Millisecond, "not after the half minute that an answer is waited for")
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
	}, time.Minute, 10*time.Millisecond)
	for pos := range stored {
		require.True(t, seen[pos], fmt.Sprint(pos))
	}
	for _, d := range in.list() {
		require.False(t, refused[string(d.Chunk().Body)], "it was refused, and is stored")
	}
	require.NoError(t, c.Ack(in.list()...))
}

// TestStartWithoutAByteLeft: a queue on a full volume is opened, takes nothing in,
// and is drained: what is acknowledged is gone after another start, and takes
// chunks again once there is room.
func TestStartWithoutAByteLeft(t *testing.T) {
	volume := volumetest.Small(t, "32m")
	dir := filepath.Join(volume.Dir, "nats")
	b := start(t, Options{Dir: dir})
	for n := range 300 {
		put(t, b, "birch", fmt.Sprint(n))
	}
	require.NoError(t, b.Close(t.Context()))
	fill := filepath.Join(volume.Dir, "fill")
	f, err := os.Create(fill)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())

	b = start(t, Options{Dir: dir})
	require.ErrorIs(t, b.Full(), mq.ErrFull)
	_, err = b.Publish(t.Context(), mqtest.Chunk("birch", "t", "refused"))
	require.ErrorIs(t, err, mq.ErrFull)
	in, c := consumeInto(t, b)
	for _, d := range in.await(t, 300) {
		require.NoError(t, c.Ack(d))
	}
	require.NoError(t, c.Stop(t.Context()))
	require.Eventually(t, func() bool { return statusOf(t, b, "birch").Chunks == 0 }, time.Minute, 10*time.Millisecond,
		"what is written gives its room back")
	require.NoError(t, b.Close(t.Context()))

	b = start(t, Options{Dir: dir})
	require.Zero(t, statusOf(t, b, "birch").Pending)
	require.NoError(t, os.Remove(fill))
	require.Eventually(t, func() bool {
		_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", "room again"))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}
