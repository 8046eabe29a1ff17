package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/volumetest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// TestStartOnAFullVolume: a server whose volume has no byte left starts, refuses
// rows, answers queries, and writes what waits in its queue; with room it takes
// rows again.
func TestStartOnAFullVolume(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE pages (id UInt64, text String) ENGINE = MergeTree ORDER BY id")
	s := harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse})
	s.Kill()
	volume := volumetest.Small(t, "64m")
	volume.MayBeHeld = true
	s.DataDir = filepath.Join(volume.Dir, "data")
	s.Start(t)
	s.AwaitReady(t)
	clickhouse.Kill()
	for n := range 50 {
		a := s.Ingest(t, "pages", fmt.Sprintf(`{"id":%d,"text":%q}`, n, strings.Repeat("x", 1000)))
		require.Equal(t, http.StatusOK, a.Status, a.Body)
	}
	s.Kill()
	fill := filepath.Join(volume.Dir, "fill")
	f, err := os.Create(fill)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	clickhouse.Start(t)

	s.Start(t)
	harness.Eventually(t, 60*time.Second, func() error {
		if got := strings.TrimSpace(clickhouse.Must(t, "SELECT uniqExact(id) FROM pages")); got != "50" {
			return fmt.Errorf("%s rows are written: %s", got, s.Output())
		}
		return nil
	})
	a := s.Ingest(t, "pages", `{"id":100,"text":"refused"}`)
	require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
	require.Contains(t, a.Body, `"queue.full"`)
	ready := s.Do(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, ready.Status)
	require.Contains(t, ready.Body, "the volume has")
	require.Equal(t, http.StatusOK, s.Query(t, "pages", `{"columns":["id"],"limit":1}`).Status)
	require.NoError(t, os.Remove(fill))
	harness.Eventually(t, time.Minute, func() error {
		if a := s.Ingest(t, "pages", `{"id":101,"text":"room"}`); a.Status != http.StatusOK {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	s.Signal(syscall.SIGTERM)
	require.Zero(t, s.Wait(t, time.Minute), s.Output())
}
