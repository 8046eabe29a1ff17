package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// writeTenants makes n folders, each with a database of its own at a ClickHouse
// that is not there.
func writeTenants(t testing.TB, dir string, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("t%05d", i)
		require.NoError(t, os.Mkdir(filepath.Join(dir, id), 0o700))
		for name, text := range map[string]string{
			"config.json":   `{"clickhouse":{"addr":"127.0.0.1:1","http_port":1,"database":"` + id + `"}}`,
			"policies.json": `{"default_role":"public","tables":{"*":{"public":{"select":{},"insert":{}}}}}`,
			"pipes.json":    `{}`, "roles.json": `{"roles":["public"]}`,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, id, name), []byte(text), 0o600))
		}
	}
}

// runApp runs a process over the directories until the test ends.
func runApp(t *testing.T, settingsDir string) *App {
	t.Helper()
	data := t.TempDir()
	cfg, _, err := config.Load([]string{
		"WH_SERVER_HOST=127.0.0.1", "WH_SERVER_PORT=0", "WH_SETTINGS_DIR=" + settingsDir, "WH_DATA_DIR=" + data,
		"WH_CONFIG=" + filepath.Join(data, "none.yaml"), "WH_AUTH_OPERATOR_KEY=k", "WH_SERVER_SHUTDOWN_TIMEOUT=60s",
	}, nil)
	require.NoError(t, err)
	started := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	a, err := New(ctx, Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Started: func(net.Addr) { close(started) }})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	<-started
	return a
}

// What a tenant costs that does nothing: no goroutine, and memory for its
// settings. The times are for the reader.
func TestTenantsThatDoNothing(t *testing.T) {
	const n = 1000
	measure := func(n int) (goroutines int, heap uint64) {
		dir := t.TempDir()
		writeTenants(t, dir, n)
		begun := time.Now()
		a := runApp(t, dir)
		t.Logf("%d tenants: boot %v", n, time.Since(begun))
		// Once every tenant was tried, those that wait have no goroutine.
		require.Eventually(t, func() bool {
			for _, err := range a.schemas.Pending() {
				if err == nil {
					return false
				}
			}
			return true
		}, 5*time.Minute, 10*time.Millisecond)
		id := tenant.ID("t00000")
		begun = time.Now()
		require.True(t, a.registry.Reload(t.Context(), &id).Adopted)
		t.Logf("%d tenants: reload of one folder %v", n, time.Since(begun))
		begun = time.Now()
		require.True(t, a.registry.Reload(t.Context(), nil).Adopted)
		t.Logf("%d tenants: reload of all %v", n, time.Since(begun))
		begun = time.Now()
		a.adopt(t.Context(), nil)
		t.Logf("%d tenants: an adoption %v", n, time.Since(begun))
		// Connections that were tried are given up after a while.
		require.Eventually(t, func() bool {
			goroutines = runtime.NumGoroutine()
			return goroutines < 400
		}, time.Minute, 50*time.Millisecond)
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return goroutines, m.HeapAlloc + m.StackInuse
	}
	few, small := measure(1)
	many, large := measure(n)
	t.Logf("goroutines %d and %d, memory %d bytes a tenant", few, many, (large-small)/n)
	require.Less(t, many-few, 400, "none for each tenant")
}
