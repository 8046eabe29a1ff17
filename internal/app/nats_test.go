package app

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

// startOnNATS runs an App with roles on a cluster, with a data directory of its
// own, until it is stopped or the test ends.
func startOnNATS(t *testing.T, c *natstest.Cluster, settingsDir, roles string) *process {
	t.Helper()
	dir := t.TempDir()
	loaded, _, err := config.Load([]string{
		"WH_SERVER_HOST=127.0.0.1", "WH_SERVER_PORT=0", "WH_SETTINGS_DIR=" + settingsDir, "WH_DATA_DIR=" + dir,
		"WH_CONFIG=" + filepath.Join(dir, "none.yaml"), "WH_AUTH_OPERATOR_KEY=operator-key-of-the-test", "WH_ROLES=" + roles,
		"WH_MQ_BACKEND=nats", "WH_MQ_NATS_URLS=" + strings.Join(c.URLs(), ","), "WH_MQ_NATS_PARTITIONS=2", "WH_MQ_NATS_SHARDS=2",
		"WH_COORD_BACKEND=nats", "WH_DEDUPE_PEBBLE_SINGLE_REPLICA=true", "WH_STREAM_ID_KEY=0123456789abcdef0123456789abcdef",
	}, nil)
	require.NoError(t, err)
	started, ended := make(chan net.Addr, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	a, err := New(ctx, Options{Config: loaded, Logger: slog.New(slog.DiscardHandler), Started: func(at net.Addr) { started <- at }})
	require.NoError(t, err)
	go func() { ended <- a.Run(ctx) }()
	p := &process{t: t, url: "http://" + (<-started).String(), stop: func() {
		if cancel != nil {
			cancel()
			cancel = nil
			assert.NoError(t, <-ended)
		}
	}}
	t.Cleanup(func() { p.stop() })
	return p
}

// Rows that one process takes are written by another, and shown by a third to who
// listens there; what the writer has not written when it stops is the next one's.
func TestProcessesShareAQueueOnNATS(t *testing.T) {
	c := natstest.Start(t, natstest.Options{})
	plan := topology.Default()
	plan.Partitions, plan.Shards, plan.Replicas, plan.FileStore = 2, 2, 1, 4<<30
	require.NoError(t, topology.Apply(t.Context(), c.JetStream(t), topology.Of(plan)))
	server := clickhousetest.Start(t)
	server.Exec(t, "CREATE TABLE pages (n UInt64) ENGINE = MergeTree ORDER BY n")
	settings := writeSettings(t, `{"clickhouse":{"addr":"`+server.Host+`","http_port":`+strconv.Itoa(server.HTTPPort)+
		`,"database":"`+server.Database+`"},"ingest":{"flush":{"max_wait":"10ms"}}}`)

	api, other := startOnNATS(t, c, settings, "api"), startOnNATS(t, c, settings, "api,sweeper")
	for _, p := range []*process{api, other} {
		require.Eventually(t, func() bool { return p.statuses(p.url, "/readyz")["/readyz"] == http.StatusOK }, time.Minute, 5*time.Millisecond)
	}
	rows := listen(t, other)
	writer := startOnNATS(t, c, settings, "ingest")
	put := func(n int) {
		t.Helper()
		status, body := api.ask(api.url, http.MethodPost, "/v1/ingest?table=pages", fmt.Sprintf(`{"n":%d}`, n))
		require.Equal(t, http.StatusOK, status, body)
	}
	written := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return server.Count(t, "pages") == n }, time.Minute, 5*time.Millisecond, "%d rows", n)
	}
	for n := range 5 {
		put(n)
	}
	written(5)
	writer.stop()
	for n := range 5 {
		put(5 + n)
	}
	startOnNATS(t, c, settings, "ingest")
	written(10)
	for n := range 10 {
		select {
		case row := <-rows:
			require.Contains(t, row, fmt.Sprintf(`"n":%d`, n))
		case <-time.After(time.Minute):
			require.FailNow(t, "no row on the stream", "row %d", n)
		}
	}
}

// listen follows a process's stream of the table pages and returns its rows, once
// the stream has begun.
func listen(t *testing.T, p *process) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/stream?table=pages", nil)
	require.NoError(t, err)
	r.Header.Set("X-Operator-Key", "operator-key-of-the-test")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	rows := make(chan string, 100)
	go func() {
		defer func() { _ = response.Body.Close() }()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, `"n"`) {
				rows <- data
			}
		}
	}()
	return rows
}
