package integration

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// folder is one tenant's settings. The zero value is an open policy over the
// pages table of a database of its own.
type folder struct {
	ch       *clickhousetest.Server
	httpPort int // 0 is ch's
	username string
	maxConns int
	timeout  int // of queries, in seconds; 0 is 50
	policies string
	config   map[string]string // further sections of config.json
	broken   bool
}

// nested runs a server over a directory with a folder for each tenant.
func nested(t *testing.T, o options, folders map[string]folder) *server {
	t.Helper()
	s := prepareNested(t, o, folders)
	s.run()
	if !o.early {
		for id, f := range folders {
			if !f.broken {
				s.awaitTenant(id)
			}
		}
	}
	return s
}

// prepareNested is nested without running the server.
func prepareNested(t *testing.T, o options, folders map[string]folder) *server {
	t.Helper()
	s := &server{
		t: t, o: o, settingsDir: t.TempDir(), dataDir: t.TempDir(), logs: &logs{},
		client: &http.Client{Transport: newTransport(), Timeout: time.Minute},
	}
	for id, f := range folders {
		s.writeFolder(id, f)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.logs.tail(6<<10))
		}
	})
	return s
}

// own is a folder over a fresh database with the pages table.
func own(t *testing.T) folder {
	t.Helper()
	f := folder{ch: clickhousetest.Start(t)}
	f.ch.Exec(t, pagesTable)
	return f
}

// writeFolder makes or replaces a tenant's folder.
func (s *server) writeFolder(id string, f folder) {
	s.t.Helper()
	next := filepath.Join(s.settingsDir, ".next-"+id)
	require.NoError(s.t, os.MkdirAll(next, 0o700))
	for name, text := range s.files(f) {
		require.NoError(s.t, os.WriteFile(filepath.Join(next, name), []byte(text), 0o600))
	}
	require.NoError(s.t, os.RemoveAll(filepath.Join(s.settingsDir, id)))
	require.NoError(s.t, os.Rename(next, filepath.Join(s.settingsDir, id)))
}

func (s *server) files(f folder) map[string]string {
	s.t.Helper()
	host, httpPort, database := "127.0.0.1", f.httpPort, "default"
	if f.ch != nil {
		host, database = f.ch.Host, f.ch.Database
		if httpPort == 0 {
			httpPort = f.ch.HTTPPort
		}
	}
	clickhouse := map[string]any{"addr": host, "http_port": httpPort, "database": database, "query_timeout": cmp.Or(f.timeout, 50)}
	if f.username != "" {
		clickhouse["username"] = f.username
	}
	if f.maxConns > 0 {
		clickhouse["max_open_conns"], clickhouse["max_idle_conns"] = f.maxConns, 1
	}
	text, err := json.Marshal(clickhouse)
	require.NoError(s.t, err)
	sections := map[string]json.RawMessage{
		"clickhouse": text, "ingest": json.RawMessage(`{"flush":{"max_wait":"50ms"}}`), "auth": json.RawMessage(`{"tenant_claim":"tenant"}`),
	}
	for key, value := range f.config {
		sections[key] = json.RawMessage(value)
	}
	text, err = json.Marshal(sections)
	require.NoError(s.t, err)
	policies := f.policies
	if policies == "" {
		policies = openPolicy
	}
	if f.broken {
		policies = `{"default_role":"secret-word"`
	}
	return map[string]string{
		"config.json": string(text), "policies.json": policies, "pipes.json": "{}",
		"roles.json": `{"roles":["public","viewer","writer","analyst"]}`,
	}
}

func (s *server) removeFolder(id string) {
	s.t.Helper()
	require.NoError(s.t, os.RemoveAll(filepath.Join(s.settingsDir, id)))
}

// reloadTenant asks for a reload of one folder.
func (s *server) reloadTenant(id string) answer {
	s.t.Helper()
	return s.ops(http.MethodPost, "/v1/ops/settings/reload?tenant="+url.QueryEscape(id), "")
}

// change writes a folder and reloads it alone, which must succeed.
func (s *server) change(id string, f folder) {
	s.t.Helper()
	s.writeFolder(id, f)
	a := s.reloadTenant(id)
	require.Equal(s.t, http.StatusOK, a.status, a.body)
}

// from names the tenant of a request.
func from(id string, headers ...string) []string { return append(headers, "X-Tenant-ID", id) }

// awaitTenant waits until the tenant's tables are known.
func (s *server) awaitTenant(id string) {
	s.t.Helper()
	s.eventually(func() string {
		a := s.query("pages", `{"select_all":true,"limit":1}`, from(id, "X-Operator-Key", operatorKey)...)
		return unless(a.status == http.StatusOK, id+": "+a.body)
	})
}

// tenantState is a tenant as the ops route shows it.
type tenantState struct {
	Tenant   string `json:"tenant"`
	State    string `json:"state"`
	Findings []struct {
		File    string `json:"file"`
		Message string `json:"message"`
	} `json:"findings"`
	FailedSteps []struct {
		Step  string `json:"step"`
		Error string `json:"error"`
	} `json:"failed_steps"`
	Hash  string `json:"settings_hash"`
	Pool  string `json:"pool"`
	Queue *struct {
		Chunks      int    `json:"chunks"`
		Pending     int    `json:"pending_chunks"`
		Bytes       int    `json:"bytes"`
		Budget      int    `json:"budget_bytes"`
		DeadLetters int    `json:"dead_letters"`
		Error       string `json:"error"`
	} `json:"queue"`
	SchemaAge       *float64 `json:"schema_age_seconds"`
	SchemaError     string   `json:"schema_error"`
	OldestUnwritten *float64 `json:"oldest_unwritten_age_seconds"`
}

// tenantStates asks the ops route for all tenants.
func (s *server) tenantStates() map[string]tenantState {
	s.t.Helper()
	a := s.ops(http.MethodGet, "/v1/ops/tenants", "")
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	states := map[string]tenantState{}
	for _, state := range decode[[]tenantState](s.t, a) {
		states[state.Tenant] = state
	}
	return states
}

// awaitState waits for a tenant's state to please.
func (s *server) awaitState(id string, please func(tenantState) bool) tenantState {
	s.t.Helper()
	var state tenantState
	s.eventually(func() string {
		state = s.tenantStates()[id]
		text, _ := json.Marshal(state)
		return unless(please(state), string(text))
	})
	return state
}

// holds waits until the tenant's own table has n rows.
func (s *server) holds(f folder, n int) {
	s.t.Helper()
	s.eventually(func() string { return unless(f.ch.Count(s.t, "pages") == n, f.ch.Database) })
}

// letterCount is how many rows of a tenant are parked.
func (s *server) letterCount(id string) int {
	s.t.Helper()
	a := s.ops(http.MethodGet, "/v1/ops/dlq/stats?tenant="+id, "")
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	return decode[struct {
		Total int `json:"total"`
	}](s.t, a).Total
}

// names of the metrics' lines that carry the tenant.
func (s *server) series(id string) []string {
	s.t.Helper()
	var found []string
	for line := range strings.Lines(s.do(http.MethodGet, "/metrics", "").body) {
		if strings.Contains(line, `tenant="`+id+`"`) {
			name, _, _ := strings.Cut(line, "{")
			found = append(found, name)
		}
	}
	return found
}
