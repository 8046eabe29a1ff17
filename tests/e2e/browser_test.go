package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// tool finds a program; without it the test is skipped here and fails in CI.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		require.FailNow(t, "a program is missing", "none of %v (make deps installs it)", names)
	}
	t.Skipf("none of %v is installed (make deps)", names)
	return ""
}

// seen is what a page reports.
type seen struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Data  string `json:"data"`
	State int    `json:"state"`
}

// page is a browser with one page, and the server that the page came from.
type page struct {
	site *httptest.Server
	// token is what the page gets when it asks for a new one.
	token func() string
	// sdk is the client's dist folder, "" for none.
	sdk string

	mu      sync.Mutex
	reports []seen
}

func newPage(t *testing.T, token func() string) *page {
	t.Helper()
	p := &page{token: token}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sdk/", func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/sdk/", http.FileServer(http.Dir(p.sdk))).ServeHTTP(w, r)
	})
	mux.Handle("GET /", http.FileServer(http.Dir(filepath.Join(harness.Root(t), "tests", "e2e", "browser"))))
	mux.HandleFunc("GET /token", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, p.token()) })
	mux.HandleFunc("POST /report", func(w http.ResponseWriter, r *http.Request) {
		var batch []seen
		if !assert.NoError(t, json.NewDecoder(r.Body).Decode(&batch)) {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reports = append(p.reports, batch...)
	})
	p.site = httptest.NewServer(mux)
	t.Cleanup(p.site.Close)
	return p
}

// open shows the page in a browser of its own, which stays until the test ends.
func (p *page) open(t *testing.T, chromium, stream string) {
	t.Helper()
	browse(t, chromium, p.site.URL+"/live.html?"+url.Values{
		"stream": {stream}, "token": {p.token()}, "since": {time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)},
	}.Encode())
}

// browse opens a page in a browser of its own, which stays until the test ends.
func browse(t *testing.T, chromium, address string) {
	t.Helper()
	harness.StartProcess(t, t.TempDir(), nil, chromium,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-port=0", address)
}

func (p *page) all() []seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]seen(nil), p.reports...)
}

// count is how many reports of a type there are, with the data unless it is "".
func (p *page) count(kind, data string) int {
	n := 0
	for _, s := range p.all() {
		if s.Type == kind && (data == "" || s.Data == data) {
			n++
		}
	}
	return n
}

// rowIDs are the values of column id of the rows that the page saw, in order.
func (p *page) rowIDs(t *testing.T) []string {
	t.Helper()
	var ids []string
	for _, s := range p.all() {
		if s.Type != "row" {
			continue
		}
		var event struct {
			Row map[string]any `json:"row"`
		}
		require.NoError(t, json.Unmarshal([]byte(s.Data), &event), s.Data)
		ids = append(ids, fmt.Sprint(event.Row["id"]))
	}
	return ids
}
