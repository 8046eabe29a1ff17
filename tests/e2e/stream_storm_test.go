package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// A thousand clients that all come back at once after a restart get what they
// missed, and a reader that is live meanwhile is not kept waiting for them.
func TestAThousandClientsComeBackAtOnce(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	server := startMoving(t, clickhouse, nil)
	server.AwaitReady(t)
	url := func() string { return server.current() + "/v1/stream?table=load" }
	followers := make([]*follower, 1000)
	for i := range followers {
		followers[i] = follow(t, url, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "")
	}
	connected := func(times int) {
		harness.Eventually(t, 60*time.Second, func() error {
			for i, f := range followers {
				if n := f.accepted(); n < times {
					return fmt.Errorf("reader %d connected %d times", i, n)
				}
			}
			return nil
		})
	}
	connected(1)
	var want []string
	send := func(id string, rows int) {
		var body strings.Builder
		for i := range rows {
			name := fmt.Sprintf("%s-%d", id, i)
			want = append(want, name)
			fmt.Fprintf(&body, "{\"id\":%q,\"note\":%q}\n", name, strings.Repeat("n", 200))
		}
		a := server.Do(t, http.MethodPost, "/v1/ingest?table=load", body.String(), "Content-Type", "application/x-ndjson")
		require.Equal(t, http.StatusOK, a.Status, a.Body)
	}
	send("before", 100)
	server.Kill()
	server.restart(t)
	server.AwaitReady(t)
	send("missed", 100)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url(), nil)
	require.NoError(t, err)
	live, err := streamtest.Open(harness.Client, request, "")
	require.NoError(t, err)
	defer live.Close()
	for i := range 20 {
		send(fmt.Sprintf("live%d", i), 1)
		within := time.AfterFunc(45*time.Second, live.Close)
		frame, err := live.NextEvent()
		within.Stop()
		require.NoError(t, err, "live row %d", i)
		require.Contains(t, frame.Data, fmt.Sprintf(`"live%d-0"`, i))
	}
	connected(2)
	for i, f := range followers {
		harness.Eventually(t, 60*time.Second, func() error {
			if err := f.account(want); err != nil {
				return fmt.Errorf("reader %d: %w", i, err)
			}
			return nil
		})
	}
	var metrics string
	// A reader has its last row before the server has ended its replay.
	harness.Eventually(t, 60*time.Second, func() error {
		metrics = server.Do(t, http.MethodGet, "/metrics", "").Body
		for _, name := range []string{
			`wavehouse_stream_subscribers{tenant="0"} 1001`, `wavehouse_stream_rows_sent_total{tenant="0"}`,
			`wavehouse_stream_bytes_sent_total{tenant="0"}`, "wavehouse_stream_replays_in_flight 0", "wavehouse_stream_replays_waiting 0",
			"wavehouse_stream_delivery_seconds_count",
		} {
			if !strings.Contains(metrics, name) {
				return fmt.Errorf("no %s", name)
			}
		}
		return nil
	})
	require.NotContains(t, metrics, "wavehouse_stream_gaps_total{", "nobody missed a row")
}
