package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

const exampleSecret = "a secret of the example's own backend"

// dashboard is the example as it is built, on one origin with the API, which is
// behind a proxy that can fail.
type dashboard struct {
	site   *httptest.Server
	proxy  *clickhousetest.TCPProxy
	said   atomic.Value // what the page is told to click
	tokens atomic.Int32
	clicks int

	mu   sync.Mutex
	last map[string]string // what each thing that is shown said last
}

// The example keeps what it shows true in two tabs, while the network goes and comes,
// while tokens run out, and loses no click.
func TestTheExampleDashboard(t *testing.T) {
	t.Parallel()
	chromium := tool(t, "chromium", "chromium-browser", "google-chrome")
	tool(t, "npm")
	source := filepath.Join(harness.Root(t), "examples", "live-dashboard")
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	schema, err := os.ReadFile(filepath.Join(source, "schema.sql"))
	require.NoError(t, err)
	clickhouse.Must(t, string(schema))
	server := harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse, Config: map[string]string{
		"ingest": `{"flush":{"max_wait":"50ms"}}`,
	}, Env: []string{"WH_AUTH_JWT_SECRET=" + exampleSecret}, Policies: `{"tables":{"clicks":{"viewer":{"select":{},"insert":{}}}}}`})
	server.AwaitReady(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries.Dir(t), "wavehouse"), "codegen", "ts", "--role", "viewer", "--server", server.URL, "--out", filepath.Join(source, "src", "database.ts"), "--check")
	cmd.Env = []string{"WH_AUTH_OPERATOR_KEY=" + harness.OperatorKey}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	d := startDashboard(t, buildExample(t, source), server)
	browse(t, chromium, d.site.URL+"/dashboard.html")
	d.await(t, "a status", "live")
	d.await(t, "b status", "live")
	d.await(t, "a chart", "1")
	d.click(t, "a", "/docs")
	d.click(t, "b", "/docs")
	d.click(t, "b", "/")
	for _, tab := range []string{"a", "b"} {
		d.await(t, tab+" pages", "/docs=2 /=1")
		d.await(t, tab+" latest", "3")
	}

	d.proxy.Refuse()
	d.click(t, "a", "/docs")
	d.click(t, "a", "/docs")
	d.await(t, "a status", "reconnecting")
	d.await(t, "a waiting", "2")
	d.proxy.Pass(t)
	d.await(t, "a waiting", "0")
	for _, tab := range []string{"a", "b"} {
		d.await(t, tab+" status", "live")
		d.await(t, tab+" pages", "/docs=4 /=1")
	}

	before := d.tokens.Load()
	harness.Eventually(t, time.Minute, func() error {
		if d.tokens.Load() < before+2 {
			return fmt.Errorf("%d tokens were asked for", d.tokens.Load())
		}
		return nil
	})
	d.click(t, "b", "/pricing")
	d.await(t, "a pages", "/docs=4 /=1 /pricing=1")
	harness.Eventually(t, time.Minute, func() error {
		if stored := strings.Fields(clickhouse.Must(t, "SELECT uniqExact(id), count() FROM clicks")); fmt.Sprint(stored) != "[6 6]" {
			return fmt.Errorf("ids and rows that are stored: %s", stored)
		}
		return nil
	})
}

// buildExample builds a copy with the client as npm would bring it.
func buildExample(t *testing.T, source string) (dist string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "example")
	require.NoError(t, os.MkdirAll(dir, 0o750))
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc", "src", "index.html", "tsconfig.json", "vite.config.ts"} {
		shell(t, "cp -r '"+filepath.Join(source, name)+"' '"+dir+"/'")
	}
	shell(t, "cd '"+filepath.Dir(buildSDK(t))+"' && npm pack --ignore-scripts --silent --pack-destination '"+dir+"'")
	shell(t, "cd '"+dir+"' && npm pkg set 'dependencies.@wavehouse/sdk=file:./wavehouse-sdk-0.1.0.tgz' && npm install --no-audit --no-fund --silent && npm run --silent build -- --base /app/")
	return filepath.Join(dir, "dist")
}

func startDashboard(t *testing.T, dist string, server *harness.Server) *dashboard {
	t.Helper()
	d := &dashboard{last: map[string]string{}}
	d.said.Store("")
	d.proxy = clickhousetest.NewTCPProxy(t, strings.TrimPrefix(server.URL, "http://"))
	mux := http.NewServeMux()
	mux.Handle("/app/", http.StripPrefix("/app/", http.FileServer(http.Dir(dist))))
	mux.Handle("/", http.FileServer(http.Dir(filepath.Join(harness.Root(t), "tests", "e2e", "browser"))))
	api := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: d.proxy.Addr()})
	api.FlushInterval = -1
	mux.Handle("/v1/", api)
	mux.HandleFunc("/said", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, d.said.Load()) })
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		d.tokens.Add(1)
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"role": "viewer", "exp": time.Now().Add(14 * time.Second).Unix()}).SignedString([]byte(exampleSecret))
		if assert.NoError(t, err) {
			fmt.Fprint(w, token)
		}
	})
	mux.HandleFunc("/report", func(_ http.ResponseWriter, r *http.Request) {
		var reports []seen
		if !assert.NoError(t, json.NewDecoder(r.Body).Decode(&reports)) {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range reports {
			d.last[s.Type] = s.Data
		}
	})
	d.site = httptest.NewServer(mux)
	t.Cleanup(d.site.Close)
	return d
}

// click clicks on a page's button, and waits until that is done.
func (d *dashboard) click(t *testing.T, tab, page string) {
	t.Helper()
	d.clicks++
	say := fmt.Sprint(d.clicks, " ", tab, " ", page)
	d.said.Store(say)
	d.await(t, "clicked", say)
}

// await waits until the example shows something.
func (d *dashboard) await(t *testing.T, what, want string) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.last[what] != want {
			return fmt.Errorf("%s is not %q: %q", what, want, d.last)
		}
		return nil
	})
}
