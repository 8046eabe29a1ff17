package embedded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
	"github.com/wavehouse/wavehouse/internal/volumetest"
)

// TestPurgeWithoutRoom asks for a purge on a volume without a byte left: the
// store notes what it purges, and one that cannot would never answer again.
func TestPurgeWithoutRoom(t *testing.T) {
	dir := volumetest.Small(t, "16m").Dir
	b := start(t, Options{Dir: filepath.Join(dir, "nats"), WatchInterval: time.Hour})
	in, c := consumeInto(t, b)
	const chunks = 1000
	for i := range chunks {
		put(t, b, "birch", fmt.Sprint(i))
	}
	require.NoError(t, c.Ack(in.await(t, chunks)[:chunks-1]...))

	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = b.Purge(ctx, map[tenant.ID]time.Time{"birch": time.Now().Add(time.Hour)})
	require.ErrorIs(t, err, mq.ErrFull)

	require.NoError(t, os.Remove(ballast))
	purged, err := b.Purge(t.Context(), map[tenant.ID]time.Time{"birch": time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.EqualValues(t, chunks-1, purged["birch"])
	_, err = b.Publish(t.Context(), mqtest.Chunk("birch", "t", "after"))
	require.NoError(t, err)
}
