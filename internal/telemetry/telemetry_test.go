package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

func TestLoggerAddsWhatTheContextCarries(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(&out, LogOptions{})
	require.NoError(t, err)
	ctx := Scope(context.Background(), slog.String("request_id", "r1"))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	logger.InfoContext(ctx, "before")
	Add(inner, slog.String("tenant", "birch"))
	logger.With("component", "api").WithGroup("g").InfoContext(inner, "hello", "n", 1)
	logger.InfoContext(ctx, "outer")
	logger.Debug("not shown")
	Add(context.Background(), slog.String("tenant", "none")) // no scope, no effect
	logger.InfoContext(Scope(context.Background()), "another")

	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	require.Len(t, lines, 4)
	records := make([]map[string]any, len(lines))
	for i, line := range lines {
		require.NoError(t, json.Unmarshal(line, &records[i]))
	}
	require.NotContains(t, records[0], "tenant")
	require.Equal(t, "api", records[1]["component"])
	require.Contains(t, string(lines[1]), `"request_id":"r1"`)
	require.Contains(t, string(lines[1]), `"tenant":"birch"`)
	require.Equal(t, "r1", records[2]["request_id"])
	require.Equal(t, "birch", records[2]["tenant"], "what was found out inside is said outside")
	require.NotContains(t, records[3], "tenant")
}

func TestLogFormatsAndLevels(t *testing.T) {
	for _, o := range []LogOptions{{Level: "loud"}, {Format: "xml"}} {
		_, err := NewLogger(&bytes.Buffer{}, o)
		require.Error(t, err)
	}
	for level, shown := range map[string]bool{"debug": true, "info": true, "warn": true, "error": false} {
		var out bytes.Buffer
		logger, err := NewLogger(&out, LogOptions{Level: level, Terminal: true})
		require.NoError(t, err)
		logger.Warn("w")
		require.Equal(t, shown, out.Len() > 0, level)
		require.NotContains(t, out.String(), "{", "a terminal gets text")
	}
}

func TestBuildInfoAndMetrics(t *testing.T) {
	b := BuildInfo("v1", "abc", "")
	require.Equal(t, "v1", b.Version)
	require.Equal(t, "abc", b.GitCommit)
	require.NotEmpty(t, b.BuildTime)
	require.NotEmpty(t, BuildInfo("", "", "").Version)

	recorder := httptest.NewRecorder()
	MetricsHandler(NewRegistry(b)).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	require.Contains(t, recorder.Body.String(), `wavehouse_build_info{git_commit="abc"`)
	require.Contains(t, recorder.Body.String(), "go_goroutines")
	require.Contains(t, recorder.Body.String(), "process_resident_memory_bytes")
}

func TestTracingOffKeepsNoSpans(t *testing.T) {
	tracing, err := NewTracing(context.Background(), TraceOptions{})
	require.NoError(t, err)
	_, span := tracing.Tracer("x").Start(context.Background(), "s")
	require.False(t, span.IsRecording())
	require.NoError(t, tracing.Close(context.Background()))
}

// A collector that is down delays neither the start nor, beyond its budget,
// the stop.
func TestTracingWithoutACollector(t *testing.T) {
	for _, protocol := range []string{"grpc", "http"} {
		tracing, err := NewTracing(context.Background(), TraceOptions{
			Enabled: true, Endpoint: "127.0.0.1:1", Protocol: protocol, Insecure: true, SampleRatio: 1, ServiceName: "wavehouse",
		})
		require.NoError(t, err)
		_, span := tracing.Tracer("x").Start(context.Background(), "s", trace.WithSpanKind(trace.SpanKindServer))
		require.True(t, span.IsRecording())
		span.End()
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		_ = tracing.Close(ctx)
		cancel()
	}
	_, err := NewTracing(context.Background(), TraceOptions{Enabled: true, Protocol: "carrier-pigeon"})
	require.Error(t, err)
}

// Spans reach a collector that is there, named for the service.
func TestTracingReachesACollector(t *testing.T) {
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.URL.Path == "/v1/traces" {
			select {
			case got <- string(body):
			default:
			}
		}
		w.WriteHeader(http.StatusOK)
	}))
	defer collector.Close()
	for _, endpoint := range []string{collector.URL + "/v1/traces", collector.Listener.Addr().String()} {
		tracing, err := NewTracing(context.Background(), TraceOptions{
			Enabled: true, Endpoint: endpoint, Protocol: "http", Insecure: true, SampleRatio: 1, ServiceName: "wavehouse-under-test",
		})
		require.NoError(t, err)
		_, span := tracing.Tracer("x").Start(context.Background(), "a-span")
		span.End()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		require.NoError(t, tracing.Close(ctx))
		cancel()
		sent := <-got
		require.Contains(t, sent, "a-span")
		require.Contains(t, sent, "wavehouse-under-test")
	}
}
