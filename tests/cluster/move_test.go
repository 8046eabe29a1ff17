package cluster

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// An installation on one machine moves to a cluster while clients write: they are sent
// to the new processes, the old one drains its queue, and is stopped.
func TestAnInstallationMovesToACluster(t *testing.T) {
	t.Parallel()
	s := start(t, 1, map[string]string{"ingest": `{"flush":{"max_wait":"100ms"}}`})
	harness.CreateLoadTable(t, s.clickhouse, "load")
	// A shard whose owner had no time to keep it is written by the next one again.
	s.clickhouse.Must(t, "ALTER TABLE load MODIFY SETTING non_replicated_deduplication_window = 10000")
	old := harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: s.clickhouse, Config: s.config})
	old.AwaitReady(t)
	var url atomic.Pointer[string]
	url.Store(&old.URL)
	load := harness.StartLoad(func() string { return *url.Load() }, "load", 3)
	under(t, load, "the start")

	next := s.process("next", "api,ingest")
	next.AwaitReady(t)
	url.Store(&next.URL)
	load.Turn(t, patience)
	under(t, load, "the switch")
	old.AwaitDrained(t, patience)
	old.Signal(syscall.SIGTERM)
	require.Zero(t, old.Wait(t, patience))
	load.Stop()
	assert.Zero(t, load.Account(t, s.clickhouse, patience))
}
