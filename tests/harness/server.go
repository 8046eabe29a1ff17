package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// OperatorKey is the operator key of every server that harness starts.
const OperatorKey = "operator-key-of-the-tests"

// OpenPolicy lets everyone read and insert everything.
const OpenPolicy = `{"default_role":"public","tables":{"*":{"public":{"select":{},"insert":{}}}}}`

// ServerOptions are what a Server starts with.
type ServerOptions struct {
	Bin        string
	ClickHouse *ClickHouse
	// Policies is policies.json; "" is OpenPolicy.
	Policies string
	// Config holds more sections of config.json, as JSON text by key.
	Config map[string]string
	// Env is added to the environment.
	Env []string
	// Group is a control group for the server, as a directory; "" is the tests' own.
	Group string
}

// Server is a running `wavehouse serve` whose directories outlive it.
type Server struct {
	*Process
	URL         string
	SettingsDir string
	DataDir     string
	options     ServerOptions
}

// StartServer writes a settings directory and runs the server on it.
func StartServer(t testing.TB, o ServerOptions) *Server {
	t.Helper()
	s := &Server{SettingsDir: t.TempDir(), DataDir: t.TempDir(), options: o}
	s.WriteSettings(t)
	s.Start(t)
	return s
}

// WriteSettings writes the four files.
func (s *Server) WriteSettings(t testing.TB) {
	t.Helper()
	config := map[string]json.RawMessage{"clickhouse": json.RawMessage(fmt.Sprintf(
		`{"addr":%q,"http_port":%d}`, s.options.ClickHouse.Addr(), s.options.ClickHouse.HTTPPort))}
	for key, value := range s.options.Config {
		config[key] = json.RawMessage(value)
	}
	text, err := json.Marshal(config)
	require.NoError(t, err)
	policies := s.options.Policies
	if policies == "" {
		policies = OpenPolicy
	}
	s.WriteFile(t, "config.json", string(text))
	s.WriteFile(t, "policies.json", policies)
	s.WriteFile(t, "pipes.json", "{}")
	s.WriteFile(t, "roles.json", `{"roles":["public","viewer","writer"]}`)
}

// WriteFile replaces one settings file, as an editor that renames does.
func (s *Server) WriteFile(t testing.TB, name, content string) {
	t.Helper()
	next := filepath.Join(s.SettingsDir, "."+name)
	require.NoError(t, os.WriteFile(next, []byte(content), 0o600))
	require.NoError(t, os.Rename(next, filepath.Join(s.SettingsDir, name)))
}

// Begin runs the server, again after a Kill or a stop.
func (s *Server) Begin(t testing.TB) {
	t.Helper()
	env := append([]string{
		"WH_SERVER_HOST=127.0.0.1", "WH_SERVER_PORT=0", "WH_SETTINGS_DIR=" + s.SettingsDir, "WH_DATA_DIR=" + s.DataDir,
		"WH_AUTH_OPERATOR_KEY=" + OperatorKey, "WH_LOG_FORMAT=json",
	}, s.options.Env...)
	command := []string{filepath.Join(s.options.Bin, "wavehouse"), "serve"}
	if s.options.Group != "" {
		// It is in the group before it is the server, so that all its memory counts.
		command = append([]string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, s.options.Group}, command...)
	}
	s.Process = StartProcess(t, t.TempDir(), env, command[0], command[1:]...)
}

// Use is the folder whose wavehouse runs from the next Start on.
func (s *Server) Use(bin string) { s.options.Bin = bin }

// Setenv changes the environment that the server starts with the next time.
func (s *Server) Setenv(env ...string) { s.options.Env = append(s.options.Env, env...) }

// Start runs the server and waits until it listens.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.Begin(t)
	Eventually(t, 2*time.Minute, func() error {
		select {
		case <-s.Exited():
			require.FailNow(t, "the server ended", s.Output())
		default:
		}
		if addr := s.logged("serving", "addr"); addr != "" {
			s.URL = "http://" + addr
			return nil
		}
		return fmt.Errorf("not listening yet: %s", s.Output())
	})
}

// logged returns a field of the first log line with the message.
func (s *Server) logged(message, field string) string {
	lines := bufio.NewScanner(strings.NewReader(s.Output()))
	lines.Buffer(nil, maxTail)
	for lines.Scan() {
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) == nil && line["msg"] == message {
			text, _ := line[field].(string)
			return text
		}
	}
	return ""
}

// ServingSince is when the server began to listen, by its log.
func (s *Server) ServingSince(t testing.TB) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s.logged("serving", "time"))
	require.NoError(t, err)
	return at
}

// AwaitReady waits for /livez.
func (s *Server) AwaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, 2*time.Minute, func() error {
		answer, err := s.TryDo(http.MethodGet, "/livez", "")
		if err == nil && answer.Status != http.StatusOK {
			return fmt.Errorf("%d %s", answer.Status, answer.Body)
		}
		return err
	})
}

// AwaitDrained waits until the queue of the server's one tenant holds nothing that is
// not written, and acknowledged.
func (s *Server) AwaitDrained(t testing.TB, within time.Duration) {
	t.Helper()
	Eventually(t, within, func() error {
		var tenants []struct {
			Queue struct {
				Pending int `json:"pending_chunks"`
			}
		}
		s.Ops(t, http.MethodGet, "/v1/ops/tenants", "").JSON(t, &tenants)
		require.Len(t, tenants, 1)
		if n := tenants[0].Queue.Pending; n > 0 {
			return fmt.Errorf("%d chunks are not written yet", n)
		}
		return nil
	})
}

// Answer is a response, read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// JSON decodes the body into v.
func (a Answer) JSON(t testing.TB, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.Body), v), a.Body)
}

// TryDo sends a request; headers are pairs.
func (s *Server) TryDo(method, path, body string, headers ...string) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := Client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, string(data)}, err
}

// Do is TryDo that fails the test.
func (s *Server) Do(t testing.TB, method, path, body string, headers ...string) Answer {
	t.Helper()
	answer, err := s.TryDo(method, path, body, headers...)
	require.NoError(t, err)
	return answer
}

// Ingest posts JSON to a table.
func (s *Server) Ingest(t testing.TB, table, body string) Answer {
	t.Helper()
	return s.Do(t, http.MethodPost, "/v1/ingest?table="+table, body, "Content-Type", "application/json")
}

// Query posts a query document.
func (s *Server) Query(t testing.TB, table, document string) Answer {
	t.Helper()
	return s.Do(t, http.MethodPost, "/v1/query?table="+table, document)
}

// Ops posts to an ops route with the operator key.
func (s *Server) Ops(t testing.TB, method, path, body string) Answer {
	t.Helper()
	return s.Do(t, method, path, body, "X-Operator-Key", OperatorKey)
}
