package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// Kills under load, where every client repeats a request until it is answered:
// each record is stored once, wherever between claim, publish, commit and
// answer a kill struck. Nothing is inserted before the last start, so that a
// kill meets no INSERT.
func TestRetriesAcrossKillsStoreEachIDOnce(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE load (id String, n Int64) ENGINE = MergeTree ORDER BY id")
	config := map[string]string{"dedupe": `{"enabled":true,"id_field":"id"}`, "ingest": `{"flush":{"max_wait":"10m"}}`}
	server := &movingServer{Server: harness.StartServer(t, harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: clickhouse, Env: []string{"WH_DEDUPE_LEASE=2s"},
		Config: config,
	})}
	server.url.Store(server.URL)
	server.AwaitReady(t)

	var stop, answered atomic.Int64
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for n := 0; stop.Load() == 0; n++ {
				var body strings.Builder
				for i := range 20 {
					fmt.Fprintf(&body, "{\"id\":\"%d-%d-%d\",\"n\":%d}\n", c, n, i, n)
				}
				if !assert.True(t, repeatUntilAnswered(server, body.String()), "the request was never answered") {
					return
				}
				answered.Add(20)
			}
		})
	}
	for round := range 4 {
		before := answered.Load()
		harness.Eventually(t, time.Minute, func() error {
			if answered.Load() < before+600 {
				return fmt.Errorf("round %d: %d rows answered", round, answered.Load()-before)
			}
			return nil
		})
		server.Kill()
		server.restart(t)
	}
	stop.Store(1)
	clients.Wait()
	server.Kill()
	config["ingest"] = `{"flush":{"max_wait":"50ms"}}`
	server.WriteSettings(t)
	server.restart(t)
	want := fmt.Sprintf("%d\t%d", answered.Load(), answered.Load())
	harness.Eventually(t, 60*time.Second, func() error {
		if got := clickhouse.Must(t, "SELECT count(), uniqExact(id) FROM load"); got != want {
			return fmt.Errorf("rows and ids: %s, want %s", got, want)
		}
		return nil
	})
	require.Positive(t, answered.Load())
}

// repeatUntilAnswered sends a request unchanged until it is answered 200.
func repeatUntilAnswered(server *movingServer, body string) bool {
	client := &http.Client{Timeout: 15 * time.Second}
	for deadline := time.Now().Add(80 * time.Second); time.Now().Before(deadline); {
		answer, err := client.Post(server.current()+"/v1/ingest?table=load", "application/x-ndjson", strings.NewReader(body))
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return true
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}
