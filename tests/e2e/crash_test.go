package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// movingServer is a server whose URL changes with its restarts.
type movingServer struct {
	*harness.Server
	url atomic.Value
}

func startMoving(t *testing.T, c *harness.ClickHouse, config map[string]string) *movingServer {
	t.Helper()
	s := &movingServer{Server: harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: c, Config: config})}
	s.url.Store(s.URL)
	return s
}

func (s *movingServer) restart(t *testing.T) {
	t.Helper()
	s.Start(t)
	s.url.Store(s.URL)
}

func (s *movingServer) current() string { return s.url.Load().(string) }

// Ten kills under load: every answered row is in ClickHouse, and none is there
// twice unless its INSERT was in flight at a kill and its table remembers no
// INSERTs.
func TestKilledTenTimesUnderLoad(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	harness.CreateLoadTable(t, clickhouse, "once")
	clickhouse.Must(t, "ALTER TABLE once MODIFY SETTING non_replicated_deduplication_window = 1000")
	server := startMoving(t, clickhouse, map[string]string{"ingest": `{"flush":{"max_wait":"300ms"},"tables":{"once":{"flush":{"max_wait":"5ms"}}}}`})
	server.AwaitReady(t)
	require.Equal(t, http.StatusOK, server.Ingest(t, "load", `{"id":"before"}`).Status)
	server.AwaitDrained(t, time.Minute)
	load, once := harness.StartLoad(server.current, "load", 4), harness.StartLoad(server.current, "once", 4)
	for i := range 10 {
		before := load.Answered()
		harness.Eventually(t, time.Minute, func() error {
			if load.Answered() < before+500 {
				return fmt.Errorf("round %d: %d rows answered", i, load.Answered()-before)
			}
			return nil
		})
		server.Kill()
		server.restart(t)
	}
	load.Stop()
	once.Stop()
	server.AwaitReady(t)
	require.Zero(t, once.Account(t, clickhouse, 60*time.Second), "of %d rows of a table that remembers INSERTs", once.Answered())
	repeated := load.Account(t, clickhouse, 60*time.Second)
	t.Logf("%d rows answered, %d of them stored more than once", load.Answered(), repeated)
	require.Equal(t, "1", clickhouse.Must(t, "SELECT count() FROM load WHERE id = 'before'"), "no kill met its INSERT")
	var stats struct{ Total int }
	server.Ops(t, http.MethodGet, "/v1/ops/dlq/stats", "").JSON(t, &stats)
	require.Zero(t, stats.Total)
}

func TestDeployUnderLoad(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	server := startMoving(t, clickhouse, map[string]string{"ingest": `{"flush":{"max_wait":"200ms"}}`})
	server.AwaitReady(t)
	load := harness.StartLoad(server.current, "load", 4)
	for range 5 {
		before := load.Answered()
		harness.Eventually(t, time.Minute, func() error {
			if load.Answered() < before+200 {
				return fmt.Errorf("%d rows answered", load.Answered()-before)
			}
			return nil
		})
		server.Signal(syscall.SIGTERM)
		require.Zero(t, server.Wait(t, time.Minute))
		server.restart(t)
	}
	load.Stop()
	require.Zero(t, load.Account(t, clickhouse, time.Minute), "a clean stop stores nothing twice")
}

func TestAcknowledgedMeansDurable(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	server := startMoving(t, clickhouse, nil)
	server.AwaitReady(t)
	clickhouse.Kill()
	for i := range 200 {
		require.Equal(t, http.StatusOK, server.Ingest(t, "load", fmt.Sprintf(`{"id":"d%d"}`, i)).Status)
	}
	server.Kill()
	clickhouse.Start(t)
	server.restart(t)
	harness.Eventually(t, time.Minute, func() error {
		if got := clickhouse.Must(t, "SELECT count(), uniqExact(id) FROM load"); got != "200\t200" {
			return fmt.Errorf("rows and ids: %s", got)
		}
		return nil
	})
}

func TestStopWhileClickHouseIsAway(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	server := startMoving(t, clickhouse, nil)
	server.AwaitReady(t)
	clickhouse.Kill()
	var rows strings.Builder
	for i := range 500 {
		fmt.Fprintf(&rows, "{\"id\":\"s%d\"}\n", i)
	}
	a := server.Do(t, http.MethodPost, "/v1/ingest?table=load", rows.String(), "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, a.Status)
	server.Signal(syscall.SIGTERM)
	require.Zero(t, server.Wait(t, time.Minute), server.Output())
	clickhouse.Start(t)
	server.restart(t)
	harness.Eventually(t, time.Minute, func() error {
		if got := clickhouse.Must(t, "SELECT count(), uniqExact(id) FROM load"); got != "500\t500" {
			return fmt.Errorf("rows and ids: %s", got)
		}
		return nil
	})
	var stats struct{ Total int }
	server.Ops(t, http.MethodGet, "/v1/ops/dlq/stats", "").JSON(t, &stats)
	require.Zero(t, stats.Total, "a stop parks nothing")
}

func TestSecondSignalAndAReloadDuringTheStop(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	server := startMoving(t, clickhouse, nil)
	server.Kill()
	server.Setenv("WH_SERVER_SHUTDOWN_TIMEOUT=10m")
	server.restart(t)
	server.AwaitReady(t)
	clickhouse.Kill()
	require.Equal(t, http.StatusOK, server.Ingest(t, "load", `{"id":"kept"}`).Status)
	// A request that never ends its body holds the stop up for minutes.
	hold := holdRequest(t, server.current())
	defer hold()
	server.Signal(syscall.SIGTERM)
	harness.Eventually(t, time.Minute, func() error {
		if !strings.Contains(server.Output(), `"msg":"stopping"`) {
			return fmt.Errorf("not stopping: %s", server.Output())
		}
		return nil
	})
	server.Signal(syscall.SIGHUP)
	server.Signal(syscall.SIGTERM)
	require.Equal(t, 1, server.Wait(t, promptly))
	clickhouse.Start(t)
	server.restart(t)
	harness.Eventually(t, time.Minute, func() error {
		if got := clickhouse.Must(t, "SELECT count() FROM load"); got != "1" {
			return fmt.Errorf("%s rows", got)
		}
		return nil
	})
}
