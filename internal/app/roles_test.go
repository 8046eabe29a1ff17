package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/processtest"
)

// process is a running App, and where its first listener is.
type process struct {
	t    *testing.T
	url  string
	stop func()
}

// newApp builds an App with roles over the directories; its listener is told to started.
func newApp(t *testing.T, settingsDir, dataDir string, opsPort int, logger *slog.Logger, started chan<- net.Addr, roles ...string) *App {
	t.Helper()
	c, _, err := config.Load([]string{
		"WH_SERVER_HOST=127.0.0.1", "WH_SERVER_PORT=0", "WH_SERVER_OPS_PORT=" + strconv.Itoa(opsPort),
		"WH_SETTINGS_DIR=" + settingsDir, "WH_DATA_DIR=" + dataDir, "WH_CONFIG=" + filepath.Join(dataDir, "none.yaml"),
		"WH_AUTH_OPERATOR_KEY=operator-key-of-the-test", "WH_SERVER_SHUTDOWN_TIMEOUT=2m",
	}, nil)
	require.NoError(t, err)
	c.Roles = roles // no queue of this version lets Load take a part of them
	a, err := New(t.Context(), Options{Config: c, Logger: logger, Started: func(at net.Addr) { started <- at }})
	require.NoError(t, err)
	return a
}

// startProcess runs an App with roles over the directories until it is stopped,
// or the test ends.
func startProcess(t *testing.T, settingsDir, dataDir string, opsPort int, roles ...string) *process {
	t.Helper()
	started, ended := make(chan net.Addr, 1), make(chan error, 1)
	a := newApp(t, settingsDir, dataDir, opsPort, slog.New(slog.DiscardHandler), started, roles...)
	ctx, cancel := context.WithCancel(context.Background())
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

// ask sends a request with the operator key.
func (p *process) ask(base, method, path, body string) (status int, answer string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, base+path, strings.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("X-Operator-Key", "operator-key-of-the-test")
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}

func (p *process) statuses(base string, paths ...string) map[string]int {
	all := map[string]int{}
	for _, path := range paths {
		all[path], _ = p.ask(base, http.MethodGet, path, "")
	}
	return all
}

func freePort(t *testing.T) int {
	port, err := processtest.FreePort()
	require.NoError(t, err)
	return port
}

// writeSettings makes a directory of one tenant.
func writeSettings(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json":   config,
		"policies.json": `{"default_role":"public","tables":{"*":{"public":{"select":{},"insert":{}}}}}`,
		"pipes.json":    `{}`, "roles.json": `{"roles":["public"]}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

const nowhere = `{"clickhouse":{"addr":"127.0.0.1","http_port":1}}`

var allRoles = []string{config.RoleAPI, config.RoleIngest, config.RoleSweeper}

func TestOnePortServesEverything(t *testing.T) {
	p := startProcess(t, writeSettings(t, nowhere), t.TempDir(), 0, allRoles...)
	assert.Equal(t, map[string]int{"/metrics": 200, "/v1/ops/tenants": 200, "/openapi.json": 200, "/readyz": 503},
		p.statuses(p.url, "/metrics", "/v1/ops/tenants", "/openapi.json", "/readyz"))
	_, body := p.ask(p.url, http.MethodGet, "/readyz", "")
	assert.Contains(t, body, "tenant 0")
}

// With a port for operations, the other tells nothing of metrics, tenants and
// causes.
func TestOperationsOnAPortOfTheirOwn(t *testing.T) {
	port := freePort(t)
	p := startProcess(t, writeSettings(t, nowhere), t.TempDir(), port, allRoles...)
	ops := "http://127.0.0.1:" + strconv.Itoa(port)
	paths := []string{"/metrics", "/v1/ops/tenants", "/openapi.json", "/version", "/livez", "/readyz", "/healthz"}
	assert.Equal(t, map[string]int{
		"/metrics": 404, "/v1/ops/tenants": 404, "/openapi.json": 200, "/version": 200, "/livez": 503, "/readyz": 503, "/healthz": 503,
	}, p.statuses(p.url, paths...))
	assert.Equal(t, map[string]int{
		"/metrics": 200, "/v1/ops/tenants": 200, "/openapi.json": 404, "/version": 200, "/livez": 503, "/readyz": 503, "/healthz": 503,
	}, p.statuses(ops, paths...))
	for _, path := range []string{"/livez", "/readyz"} {
		_, body := p.ask(p.url, http.MethodGet, path, "")
		assert.JSONEq(t, `{"status":"degraded"}`, body)
		_, body = p.ask(ops, http.MethodGet, path, "")
		assert.Contains(t, body, "tenant 0", "%s names the cause", path)
	}
	status, _ := p.ask(ops, http.MethodPost, "/v1/ingest?table=t", `{}`)
	assert.Equal(t, http.StatusNotFound, status)
	status, _ = p.ask(p.url, http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`)
	assert.Equal(t, http.StatusNotFound, status)
}

// Roles say what a process does: without ingest rows stay in the queue, without
// api there are operations alone.
func TestRolesSayWhatAProcessDoes(t *testing.T) {
	server := clickhousetest.Start(t)
	server.Exec(t, "CREATE TABLE pages (n UInt64) ENGINE = MergeTree ORDER BY n")
	settings := writeSettings(t, `{"clickhouse":{"addr":"`+server.Host+`","http_port":`+strconv.Itoa(server.HTTPPort)+
		`,"database":"`+server.Database+`"},"ingest":{"flush":{"max_wait":"10ms"}}}`)
	data := t.TempDir()
	ready := func(p *process) {
		t.Helper()
		require.Eventually(t, func() bool { return p.statuses(p.url, "/readyz")["/readyz"] == http.StatusOK }, time.Minute, 5*time.Millisecond)
	}
	count := func() int { return server.Count(t, "pages") }

	api := startProcess(t, settings, data, 0, config.RoleAPI)
	ready(api)
	status, body := api.ask(api.url, http.MethodPost, "/v1/ingest?table=pages", `{"n":1}`)
	require.Equal(t, http.StatusOK, status, body)
	status, body = api.ask(api.url, http.MethodPost, "/v1/ingest?table=pages&wait=inserted&timeout=300ms", `{"n":2}`)
	assert.Equal(t, http.StatusAccepted, status, "%s: nobody here writes it", body)
	assert.Zero(t, count())
	api.stop()

	ingest := startProcess(t, settings, data, 0, config.RoleIngest)
	ready(ingest)
	assert.Equal(t, map[string]int{"/v1/query": 404, "/v1/stream": 404, "/openapi.json": 404, "/metrics": 200, "/v1/ops/tenants": 200},
		ingest.statuses(ingest.url, "/v1/query", "/v1/stream", "/openapi.json", "/metrics", "/v1/ops/tenants"))
	require.Eventually(t, func() bool { return count() == 2 }, time.Minute, 5*time.Millisecond, "the rows of the process before")
}
