// Package integration runs the whole server, in this process, on a real
// ClickHouse: HTTP in; the stored row, the answer and the live stream out.
package integration

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// Secrets of every server of this package. They must show nowhere.
const (
	operatorKey = "operator-key-4f1c8a52d7"
	jwtSecret   = "jwt-secret-93b0e6f1c24d"
)

// openPolicy lets everyone read and insert everything.
const openPolicy = `{"default_role":"public","tables":{"*":{"public":{"select":{},"insert":{}}}}}`

// pagesTable is the table that most cases speak of.
const pagesTable = `CREATE TABLE pages (event_id String, page String, org String DEFAULT '', secret String DEFAULT '',
	n Int64 DEFAULT 0, ts DateTime64(3,'UTC') DEFAULT now64(3)) ENGINE = MergeTree ORDER BY event_id`

// soon bounds what takes an fsync, a flush or a file notification.
const soon = time.Minute

// options are what a server under test starts with. The zero value is an open
// policy over a fresh database of the shared ClickHouse.
type options struct {
	clickhouse *clickhousetest.Server
	// proxy stands before ClickHouse's HTTP port; nil is none.
	proxy *clickhousetest.FaultProxy
	// httpPort replaces where the server finds ClickHouse.
	httpPort int
	username string
	password string
	policies string
	// config holds further sections of config.json, as JSON text by key.
	config map[string]string
	// early returns from start before the tables are known.
	early    bool
	logLevel string
	// env replaces or adds variables of the boot configuration.
	env []string
}

// server is a running server and its directories, which outlive a restart.
type server struct {
	t           *testing.T
	o           options
	ch          *clickhousetest.Server
	settingsDir string
	dataDir     string
	logs        *logs
	client      *http.Client
	url         string

	stopOnce *sync.Once
	cancel   context.CancelFunc
	ended    chan error
}

// start runs the statements in the test's database and a server on it.
func start(t *testing.T, o options, statements ...string) *server {
	t.Helper()
	if o.clickhouse == nil {
		o.clickhouse = clickhousetest.Start(t)
	}
	o.clickhouse.Exec(t, statements...)
	transport := newTransport()
	s := &server{
		t: t, o: o, ch: o.clickhouse, settingsDir: t.TempDir(), dataDir: t.TempDir(), logs: &logs{},
		client: &http.Client{Transport: transport, Timeout: time.Minute},
	}
	s.writeSettings()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.logs.tail(6<<10))
		}
	})
	s.run()
	return s
}

// newTransport lets go of a connection before the server does, which gives one that
// was opened to spare 10 s for its first request: no request meets that end.
func newTransport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 5 * time.Second}
}

// behindProxy is start with a proxy before ClickHouse's HTTP port.
func behindProxy(t *testing.T, o options, statements ...string) *server {
	t.Helper()
	o.clickhouse = clickhousetest.Start(t)
	o.proxy = clickhousetest.NewFaultProxy(t, o.clickhouse.HTTPAddr())
	return start(t, o, statements...)
}

// unwritten runs f while the server, which is behind a proxy, cannot reach ClickHouse:
// what it accepts meanwhile is written afterwards. What it is writing by then is
// written before: an answer that is cut off would have its rows written twice.
func (s *server) unwritten(f func()) {
	s.t.Helper()
	s.eventually(func() string {
		for id, state := range s.tenantStates() {
			if state.Queue != nil && state.Queue.Pending > 0 {
				return "rows of tenant " + id + " are being written"
			}
		}
		return ""
	})
	s.o.proxy.Refuse()
	f()
	s.o.proxy.Pass(s.t)
}

// run starts the server, again after stop.
func (s *server) run() {
	s.t.Helper()
	cfg, _, err := config.Load(append([]string{
		"WH_SERVER_HOST=127.0.0.1", "WH_SERVER_PORT=0", "WH_SERVER_SHUTDOWN_TIMEOUT=6s",
		"WH_SETTINGS_DIR=" + s.settingsDir, "WH_DATA_DIR=" + s.dataDir, "WH_CONFIG=" + filepath.Join(s.dataDir, "none.yaml"),
		"WH_AUTH_OPERATOR_KEY=" + operatorKey, "WH_AUTH_JWT_SECRET=" + jwtSecret, "WH_CH_PASSWORD=" + s.o.password,
	}, s.o.env...), nil)
	require.NoError(s.t, err)
	logger, err := telemetry.NewLogger(s.logs, telemetry.LogOptions{Level: s.logLevel(), Format: "json"})
	require.NoError(s.t, err)
	addr := make(chan net.Addr, 1)
	ctx, cancel := context.WithCancel(context.Background())
	a, err := app.New(ctx, app.Options{Config: cfg, Logger: logger, Started: func(at net.Addr) { addr <- at }})
	if err != nil {
		cancel()
		require.NoError(s.t, err)
	}
	s.cancel, s.ended, s.stopOnce = cancel, make(chan error, 1), new(sync.Once)
	go func() { s.ended <- a.Run(ctx) }()
	s.t.Cleanup(s.stop)
	select {
	case at := <-addr:
		s.url = "http://" + at.String()
	case err := <-s.ended:
		s.ended <- err
		require.FailNow(s.t, "the server ended at once", "%v", err)
	case <-time.After(soon):
		require.FailNow(s.t, "the server did not listen")
	}
	if !s.o.early {
		s.await()
	}
}

func (s *server) logLevel() string {
	if s.o.logLevel != "" {
		return s.o.logLevel
	}
	return "info"
}

// await waits until the tables are known and the stream's feed runs.
func (s *server) await() {
	s.t.Helper()
	s.eventually(func() string {
		a := s.do(http.MethodGet, "/readyz", "")
		return unless(a.status == http.StatusOK, a.body)
	})
}

// stop ends the server as SIGTERM does, and holds it to a clean end.
func (s *server) stop() {
	s.t.Helper()
	s.stopOnce.Do(func() {
		s.cancel()
		select {
		case err := <-s.ended:
			require.NoError(s.t, err)
		case <-time.After(2 * time.Minute):
			require.FailNow(s.t, "the server did not stop")
		}
		s.client.CloseIdleConnections()
	})
}

// restart stops the server and runs it again over the same directories.
func (s *server) restart() {
	s.t.Helper()
	s.stop()
	s.run()
}

// writeSettings writes the four files.
func (s *server) writeSettings() {
	s.t.Helper()
	httpPort := s.ch.HTTPPort
	if s.o.proxy != nil {
		httpPort = s.o.proxy.Port()
	}
	if s.o.httpPort != 0 {
		httpPort = s.o.httpPort
	}
	clickhouse := map[string]any{"addr": s.ch.Host, "http_port": httpPort, "database": s.ch.Database, "query_timeout": 50}
	if s.o.username != "" {
		clickhouse["username"] = s.o.username
	}
	text, err := json.Marshal(clickhouse)
	require.NoError(s.t, err)
	sections := map[string]json.RawMessage{
		"clickhouse": text,
		"ingest":     json.RawMessage(`{"flush":{"max_wait":"50ms"}}`),
	}
	for key, value := range s.o.config {
		sections[key] = json.RawMessage(value)
	}
	text, err = json.Marshal(sections)
	require.NoError(s.t, err)
	policies := s.o.policies
	if policies == "" {
		policies = openPolicy
	}
	s.writeFile("roles.json", `{"roles":["public","viewer","writer","analyst"]}`)
	s.writeFile("pipes.json", `{}`)
	s.writeFile("policies.json", policies)
	s.writeFile("config.json", string(text))
}

// writeFile replaces one settings file, as an editor that renames does.
func (s *server) writeFile(name, content string) {
	s.t.Helper()
	next := filepath.Join(s.settingsDir, "."+name)
	require.NoError(s.t, os.WriteFile(next, []byte(content), 0o600))
	require.NoError(s.t, os.Rename(next, filepath.Join(s.settingsDir, name)))
}

// reload asks for a reload and returns the answer.
func (s *server) reload() answer {
	s.t.Helper()
	return s.ops(http.MethodPost, "/v1/ops/settings/reload", "")
}

// eventually polls until check finds nothing to complain about.
func (s *server) eventually(check func() string) {
	s.t.Helper()
	s.eventuallyWithin(soon, check)
}

// eventuallyWithin is eventually for what takes longer.
func (s *server) eventuallyWithin(within time.Duration, check func() string) {
	s.t.Helper()
	deadline := time.Now().Add(within)
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(s.t, "it did not come to pass", complaint)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// stored waits until the table holds n rows.
func (s *server) stored(table string, n int) {
	s.t.Helper()
	s.eventually(func() string {
		got := s.ch.Count(s.t, table)
		return unless(got == n, table+" has "+strconv.Itoa(got)+" rows, want "+strconv.Itoa(n))
	})
}

// unless returns the complaint when it is not ok.
func unless(ok bool, complaint string) string {
	if ok {
		return ""
	}
	return "not yet: " + complaint
}
