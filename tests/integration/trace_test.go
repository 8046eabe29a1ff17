package integration

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

// The trace of the request that brought the rows is in the queue beside them,
// so that what happens to them later can be told as its part.
func TestTraceContextGoesThroughTheQueue(t *testing.T) {
	t.Parallel()
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Refuse()
	s.accept("pages", lines("t", 1), "traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	s.stop()

	broker, err := embedded.New(embedded.Options{Dir: filepath.Join(s.dataDir, "nats"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	defer func() { assert.NoError(t, broker.Close(ctx)) }()
	chunks := make(chan mq.Chunk, 1)
	consumption, err := broker.Consume(ctx, mqtest.Work(func(d mq.Delivery) {
		select {
		case chunks <- d.Chunk():
		default:
		}
	}))
	require.NoError(t, err)
	select {
	case chunk := <-chunks:
		assert.True(t, strings.HasPrefix(chunk.TraceParent, "00-"+id+"-"), chunk.TraceParent)
		assert.Equal(t, "pages", chunk.Table)
		assert.Equal(t, 1, chunk.Rows)
		assert.JSONEq(t, `[{"name":"event_id","type":"String"},{"name":"page","type":"String"}]`, chunk.Columns)
		assert.WithinDuration(t, time.Now(), chunk.Received, time.Minute)
	case <-ctx.Done():
		require.Fail(t, "the chunk was not delivered")
	}
	require.NoError(t, consumption.Stop(ctx))
}

// A request's id and its tenant and table are on its log lines.
func TestLogLinesNameTheRequest(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{logLevel: "debug"}, pagesTable)
	s.o.proxy.Refuse()
	a := s.query("pages", `{"columns":["page"]}`, "X-Request-ID", "find-me")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	s.eventually(func() string { // it comes when the answer is gone
		return unless(len(s.logs.lines(`"request_id":"find-me"`, `"tenant":"0"`, `"table":"pages"`, "clickhouse.unavailable", `"route":"/v1/query"`, `"status":503`)) > 0, "the request's line")
	})
}

// Every metric of the product is named for it, and what happened is counted.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, guardedTable)
	l := s.listen("guarded", "")
	s.accept("guarded", guardedLines(10, func(i int) bool { return i == 4 }))
	l.rows(10)
	s.stored("guarded", 9)
	s.eventually(func() string { return unless(s.parked() == 1, "parked") })
	text := s.do(http.MethodGet, "/metrics", "").body
	for _, sample := range []string{"go_goroutines ", "process_resident_memory_bytes ", `wavehouse_http_request_duration_seconds_count{method="POST",route="/v1/ingest",status="200"} 1`} {
		assert.Contains(t, text, "\n"+sample)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		prefix, _, _ := strings.Cut(name, "_")
		assert.Contains(t, []string{"wavehouse", "go", "process", "promhttp"}, prefix, line)
	}
}
