package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// TestSignalsDuringTheStart: a server that is told to stop while it starts ends
// with code 0, and one that is told to reload does so once it is up.
func TestSignalsDuringTheStart(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: harness.StartClickHouse(t, binaries.Dir(t))})
	s.Signal(syscall.SIGTERM)
	require.Zero(t, s.Wait(t, time.Minute), s.Output())
	lock := filepath.Join(s.DataDir, "nats", "lock")
	begin := func() {
		require.NoError(t, os.Remove(lock))
		s.Begin(t)
		harness.Eventually(t, time.Minute, func() error { _, err := os.Stat(lock); return err })
	}
	for n := range 12 {
		begin()
		time.Sleep(time.Duration(n*n) * time.Millisecond)
		s.Signal(syscall.SIGTERM)
		require.Zero(t, s.Wait(t, time.Minute), "%d: %s", n, s.Output())
	}
	begin()
	s.Signal(syscall.SIGHUP)
	harness.Eventually(t, time.Minute, func() error {
		if !strings.Contains(s.Output(), "settings reloaded") {
			return fmt.Errorf("no reload yet: %s", s.Output())
		}
		return nil
	})
	require.Less(t, strings.Index(s.Output(), `"serving"`), strings.Index(s.Output(), "settings reloaded"))
	s.Signal(syscall.SIGTERM)
	require.Zero(t, s.Wait(t, time.Minute), s.Output())
}
