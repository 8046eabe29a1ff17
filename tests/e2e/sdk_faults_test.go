package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// faultyNetwork passes requests to a server that may move. What a request asks for in
// X-Fault is done to the first of them: "cut-N" ends a stream after N bytes of its
// body, "lost" loses an answer, "busy" answers 503 with Retry-After.
type faultyNetwork struct {
	server *movingServer

	mu    sync.Mutex
	done  map[string]bool
	again int // requests whose fault is over
}

func (f *faultyNetwork) first(fault string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done[fault] {
		f.again++
		return false
	}
	f.done[fault] = true
	return true
}

func (f *faultyNetwork) seen(fault string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done[fault]
}

// ServeHTTP implements http.Handler.
func (f *faultyNetwork) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, _ := url.Parse(f.server.current())
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	forward.ErrorLog = nil
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) }
	fault := r.Header.Get("X-Fault")
	var bytes int
	switch _, err := fmt.Sscanf(fault, "cut-%d", &bytes); {
	case !f.first(fault):
	case err == nil:
		forward.ModifyResponse = func(a *http.Response) error {
			a.Body = cutBody{a.Body, &bytes}
			return nil
		}
	case fault == "lost":
		forward.ModifyResponse = func(*http.Response) error { panic(http.ErrAbortHandler) }
	case fault == "busy":
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"busy","code":"query.busy","retryable":true}`)
		return
	}
	forward.ServeHTTP(w, r)
}

// cutBody fails after so many bytes.
type cutBody struct {
	io.ReadCloser
	left *int
}

func (c cutBody) Read(b []byte) (int, error) {
	if *c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(b[:min(len(b), *c.left)])
	*c.left -= n
	return n, err
}

// Streams that are cut at every byte, and over a restart, bring each row once and
// nothing else; an insert whose answer is lost is stored once; a busy server is asked
// again. Both clients, on a real server.
func TestClientsThroughAFaultyNetwork(t *testing.T) {
	t.Parallel()
	tool(t, "npm")
	dist := buildSDK(t)
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	for _, table := range []string{"pages", "moving", "stored"} {
		// An INSERT that a kill interrupts is sent again, and is stored once where
		// the table remembers its token.
		clickhouse.Must(t, "CREATE TABLE "+table+" (id String) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 1000")
	}
	for name, command := range map[string]func(ctx context.Context, address string, cuts int) *exec.Cmd{
		"TypeScript": func(ctx context.Context, address string, cuts int) *exec.Cmd {
			return exec.CommandContext(ctx, "node", filepath.Join(harness.Root(t), "tests", "e2e", "sdk", "faulty_network.mjs"), dist, address, fmt.Sprint(cuts))
		},
		"Go": func(ctx context.Context, address string, cuts int) *exec.Cmd {
			cmd := exec.CommandContext(ctx, "go", "test", "-tags", "server", "-count=1", "-v", "-run", "TestThroughAFaultyNetwork", ".")
			cmd.Dir = filepath.Join(harness.Root(t), "sdk", "go")
			cmd.Env = append(os.Environ(), "WAVEHOUSE_URL="+address, "WAVEHOUSE_CUTS="+fmt.Sprint(cuts))
			return cmd
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := startMoving(t, clickhouse, map[string]string{"ingest": `{"flush":{"max_wait":"50ms"}}`})
			server.AwaitReady(t)
			for _, table := range []string{"pages", "moving", "stored"} {
				clickhouse.Must(t, "TRUNCATE TABLE "+table)
			}
			require.Equal(t, http.StatusOK, server.Ingest(t, "pages", `[{"id":"1"},{"id":"2"}]`).Status)
			require.Equal(t, http.StatusOK, server.Ingest(t, "pages", `{"id":"last"}`).Status)
			require.Equal(t, http.StatusOK, server.Ingest(t, "moving", `{"id":"before"}`).Status)
			network := &faultyNetwork{server: server, done: map[string]bool{}}
			site := httptest.NewServer(network)
			t.Cleanup(site.Close)
			cuts := streamBytes(t, server) + 5

			cmd := command(t.Context(), site.URL, cuts)
			cmd.WaitDelay = 5 * time.Second
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			require.NoError(t, cmd.Start())
			harness.Eventually(t, 5*time.Minute, func() error {
				if !network.seen("busy") {
					return fmt.Errorf("the client is not through yet")
				}
				return nil
			})
			server.Kill()
			server.restart(t)
			server.AwaitReady(t)
			require.Equal(t, http.StatusOK, server.Ingest(t, "moving", `[{"id":"after"},{"id":"last"}]`).Status)
			require.NoError(t, cmd.Wait(), out.String())

			var saw struct {
				Streams     map[string]string
				Moving      string
				Taken, Rows int
			}
			_, line, _ := strings.Cut(out.String(), "{")
			line, _, _ = strings.Cut("{"+line, "\n")
			require.NoError(t, json.Unmarshal([]byte(line), &saw), out.String())
			require.Len(t, saw.Streams, cuts)
			network.mu.Lock()
			assert.Greater(t, network.again, cuts*9/10, "streams that went on after they were cut")
			network.mu.Unlock()
			for cut, ids := range saw.Streams {
				assert.Equal(t, "1 2 last", ids, "cut after %s bytes of %d", cut, cuts)
			}
			assert.Equal(t, "before after last", saw.Moving)
			assert.Equal(t, 2, saw.Taken)
			assert.LessOrEqual(t, saw.Rows, 2)
			harness.Eventually(t, time.Minute, func() error {
				if stored := strings.TrimSpace(clickhouse.Must(t, "SELECT count() FROM stored")); stored != "2" {
					return fmt.Errorf("%s rows are stored", stored)
				}
				return nil
			})
		})
	}
}

// streamBytes is how long the stream of pages is up to the end of its last row.
func streamBytes(t *testing.T, server *movingServer) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/stream?table=pages&since=2001-01-01T00:00:00Z", nil)
	require.NoError(t, err)
	answer, err := harness.Client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	var text []byte
	for !strings.Contains(string(text), `"id":"last"`) || !strings.HasSuffix(string(text), "\n\n") {
		part := make([]byte, 1024)
		n, err := answer.Body.Read(part)
		require.NoError(t, err)
		text = append(text, part[:n]...)
	}
	return len(text)
}
