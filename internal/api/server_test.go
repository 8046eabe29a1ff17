package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/telemetry"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	testOperatorKey = "an-operator-key-for-tests"
	testSecret      = "a-secret-of-at-least-thirty-two-bytes"
)

// testBackends stand for everything behind the API. The settings, the
// authenticator and the gate are the real ones; what needs ClickHouse is
// tested with ClickHouse, elsewhere.
type testBackends struct {
	mu          sync.Mutex
	published   []mq.Chunk
	publish     error
	loaded      bool
	tables      map[string]*schema.Table
	pending     map[tenant.ID]error
	pings       map[string]error
	full        error
	damages     []mq.Damage
	unavailable map[tenant.ID]error
	panics      bool
	asked       int // for tables
}

func (b *testBackends) Damages() []mq.Damage             { return b.damages }
func (b *testBackends) Unavailable() map[tenant.ID]error { return b.unavailable }

func (b *testBackends) Publish(_ context.Context, c mq.Chunk) (mq.Position, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.panics {
		panic("a bug")
	}
	if b.publish != nil {
		return mq.Position{}, b.publish
	}
	b.published = append(b.published, c)
	return mq.NewPosition(1, uint64(len(b.published))), nil
}

func (b *testBackends) rows() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.published {
		n += c.Rows
	}
	return n
}

func (b *testBackends) Catalogue(tenant.ID) (*schema.Catalogue, bool) {
	b.mu.Lock()
	b.asked++
	b.mu.Unlock()
	if !b.loaded {
		return nil, false
	}
	tables := make([]*schema.Table, 0, len(b.tables))
	for _, table := range b.tables {
		tables = append(tables, table)
	}
	return schema.NewCatalogue(tables, time.UTC, time.Now()), true
}

func (b *testBackends) RefreshEarly(context.Context, tenant.ID) (*schema.Catalogue, error) {
	c, _ := b.Catalogue(tenant.Default)
	return c, nil
}
func (b *testBackends) Refresh(context.Context, tenant.ID) error { return nil }
func (b *testBackends) Pending() map[tenant.ID]error             { return b.pending }
func (b *testBackends) FirstLoaded() bool                        { return b.loaded }
func (b *testBackends) Probe(context.Context, time.Duration) map[string]error {
	for _, err := range b.pings {
		if err == nil {
			return nil
		}
	}
	return b.pings
}
func (b *testBackends) Full() error                             { return b.full }
func (b *testBackends) Get(tenant.ID) (*clickhouse.Pool, error) { return nil, clickhouse.ErrNoPool }
func (b *testBackends) DeadLetters(tenant.ID) (mq.DeadLetterStore, error) {
	return nil, mq.ErrNoDeadLetters
}

func (b *testBackends) EventID(mq.Topic, mq.Position) string { return "" }

func (b *testBackends) Open(tenant.ID) int { return 0 }

func (b *testBackends) Serve(http.ResponseWriter, *http.Request, stream.Subscription) error {
	return &stream.Error{Code: stream.CodeTooManySubscribers, Message: "too many", RetryAfter: time.Second}
}

func pagesTable() *schema.Table {
	columns := []record.Column{
		{Name: "event_id", Type: "String", Position: 1},
		{Name: "page", Type: "String", Position: 2},
		{Name: "n", Type: "Int64", Position: 3, DefaultKind: "DEFAULT", DefaultExpression: "0"},
	}
	return &schema.Table{Name: "pages", Engine: "MergeTree", Columns: columns, Record: record.Compile("pages", columns, time.UTC)}
}

func writeSettings(t testing.TB, policies string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"config.json":   `{"cors":{"allowed_origins":["https://app.example.test"]}}`,
		"policies.json": policies,
		"pipes.json":    `{}`,
		"roles.json":    `{"roles":["writer","viewer"]}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

const writerPolicy = `{"default_role":"writer","tables":{"pages":{"writer":{"insert":{},"select":{}}}}}`

type testRig struct {
	*testBackends
	options Options
	dir     string
}

func newRig(t testing.TB, policies string) *testRig {
	t.Helper()
	b := &testBackends{loaded: true, tables: map[string]*schema.Table{"pages": pagesTable()}}
	dir := writeSettings(t, policies)
	registry, err := settings.NewRegistry(dir, settings.Options{})
	require.NoError(t, err)
	return &testRig{testBackends: b, dir: dir, options: Options{
		Settings: registry, Schemas: b, Pools: b, Queue: b, Faults: b, Streams: b,
		Gate:   ingest.NewGate(ingest.GateOptions{Broker: b}),
		Auth:   auth.New(auth.Options{OperatorKey: testOperatorKey, Secret: func(tenant.ID) string { return testSecret }}),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Registerer: prometheus.NewRegistry(),
		Tracer: noop.NewTracerProvider().Tracer("test"), Build: telemetry.BuildInfo("v1", "abc", "now"),
		Metrics: http.NotFoundHandler(), MetricsPath: "/metrics",
	}}
}

func testOptions(t *testing.T) Options {
	t.Helper()
	return newRig(t, writerPolicy).options
}

func newTestServer(t *testing.T, o Options) *Server {
	t.Helper()
	return NewServer(o)
}

// serve starts the rig's server on loopback and returns its URL.
func (r *testRig) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(NewServer(r.options))
	t.Cleanup(server.Close)
	return server.URL
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &v), a.body)
	return v
}

// send makes a request; headers are pairs.
func send(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, response.Header, string(data)}
}

func TestEveryFailureHasOneShape(t *testing.T) {
	url := newRig(t, strings.Replace(writerPolicy, `"tables":{`, `"tables":{"nosuch":{"writer":{"insert":{}}},`, 1)).serve(t)
	for name, test := range map[string]struct {
		method, path string
		status       int
		code         string
	}{
		"unknown route":   {"GET", "/nosuch", 404, "route.unknown"},
		"wrong method":    {"GET", "/v1/ingest?table=pages", 405, "method.not_allowed"},
		"no table":        {"POST", "/v1/ingest", 400, "table.missing"},
		"table twice":     {"POST", "/v1/ingest?table=pages&table=x", 400, "query_string.invalid"},
		"bad query":       {"POST", "/v1/ingest?table=%zz", 400, "query_string.invalid"},
		"unknown table":   {"POST", "/v1/ingest?table=nosuch", 403, "auth.forbidden"},
		"no content type": {"POST", "/v1/ingest?table=pages", 415, "content_type.unsupported"},
		"ops closed":      {"POST", "/v1/ops/query", 403, "auth.forbidden"},
		"stream":          {"GET", "/v1/stream?table=pages", 429, "tenant.rate_limited"},
		"no pool":         {"POST", "/v1/query?table=pages", 400, "query.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			a := send(t, test.method, url+test.path, "", "X-Request-ID", "mine-1")
			require.Equal(t, test.status, a.status, a.body)
			body := a.json(t)
			require.Equal(t, test.code, body["code"])
			require.NotEmpty(t, body["error"])
			require.Contains(t, body, "retryable")
			require.Equal(t, "mine-1", body["request_id"])
			require.Equal(t, "application/json", a.header.Get("Content-Type"))
			require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		})
	}
}

// Who has no grant on a table is not told whether there is one of that name, and
// has nobody look for it.
func TestWithoutAGrantATableThatExistsIsLikeOneThatDoesNot(t *testing.T) {
	rig := newRig(t, `{"tables":{"others":{"writer":{"insert":{"allow_columns":["*"]},"select":{"allow_columns":["*"]}}}}}`)
	url := rig.serve(t)
	for route, method := range map[string]string{"/v1/ingest": "POST", "/v1/query": "POST", "/v1/stream": "GET"} {
		var bodies []map[string]any
		for _, table := range []string{"pages", "nosuch"} {
			a := send(t, method, url+route+"?table="+table, "{}", "Content-Type", "application/json", "X-Request-ID", "mine-1")
			require.Equal(t, 403, a.status, "%s: %s", route, a.body)
			bodies = append(bodies, a.json(t))
		}
		require.Equal(t, bodies[0], bodies[1], route)
	}
	require.Zero(t, rig.asked)
}

func TestMethodNotAllowedNamesTheMethods(t *testing.T) {
	url := newRig(t, writerPolicy).serve(t)
	require.Equal(t, []string{"POST"}, send(t, "DELETE", url+"/v1/ingest", "").header.Values("Allow"))
	a := send(t, "POST", url+"/livez", "")
	require.Equal(t, []string{"GET", "HEAD"}, a.header.Values("Allow"))
	require.Contains(t, a.body, "but GET, HEAD")
}

func TestProblemJSON(t *testing.T) {
	url := newRig(t, writerPolicy).serve(t)
	a := send(t, "GET", url+"/nosuch", "", "Accept", "application/problem+json")
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.EqualValues(t, 404, a.json(t)["status"])
	require.Equal(t, "route.unknown", a.json(t)["code"])
}

func TestRequestIDIsTakenOrMade(t *testing.T) {
	url := newRig(t, writerPolicy).serve(t)
	require.Equal(t, "abc", send(t, "GET", url+"/livez", "", "X-Request-ID", "abc").header.Get("X-Request-ID"))
	for _, bad := range []string{strings.Repeat("a", 129), "has space", "tést"} {
		id := send(t, "GET", url+"/livez", "", "X-Request-ID", bad).header.Get("X-Request-ID")
		require.Len(t, id, 32)
	}
}

func TestRecoveredPanicIsAnAnswer(t *testing.T) {
	rig := newRig(t, writerPolicy)
	rig.panics = true
	a := send(t, "POST", rig.serve(t)+"/v1/ingest?table=pages", `{"event_id":"a","page":"/"}`, "Content-Type", "application/json")
	require.Equal(t, 500, a.status)
	require.Equal(t, "internal", a.json(t)["code"])
}

func TestTenantHeaderForms(t *testing.T) {
	url := newRig(t, writerPolicy).serve(t) + "/v1/ingest?table=pages"
	for value, want := range map[string]struct {
		status int
		code   string
	}{
		"":                      {200, ""},
		"0":                     {200, ""},
		"birch":                 {404, "tenant.unknown"},
		"BIRCH":                 {404, "tenant.unknown"},
		"9007199254740993":      {404, "tenant.unknown"},
		"../birch":              {400, "tenant.invalid"},
		"birch%2f":              {400, "tenant.invalid"},
		".":                     {400, "tenant.invalid"},
		strings.Repeat("a", 65): {400, "tenant.invalid"},
	} {
		a := send(t, "POST", url, `{"event_id":"a","page":"/"}`, "Content-Type", "application/json", "X-Tenant-ID", value)
		require.Equal(t, want.status, a.status, "%q: %s", value, a.body)
		if want.code != "" {
			require.Equal(t, want.code, a.json(t)["code"])
			continue
		}
		require.Contains(t, a.header.Values("Vary"), "X-Tenant-Id")
	}
	twice := send(t, "POST", url, "{}", "Content-Type", "application/json", "X-Tenant-ID", "0", "X-Tenant-ID", "0")
	require.Equal(t, "tenant.invalid", twice.json(t)["code"])
}

func TestPreflightOfAListedAndAnotherOrigin(t *testing.T) {
	url := newRig(t, writerPolicy).serve(t)
	ask := []string{"Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization, last-event-id, x-tenant-id, cache-control"}
	a := send(t, "OPTIONS", url+"/v1/stream", "", append(ask, "Origin", "https://app.example.test")...)
	require.Equal(t, 204, a.status)
	require.Equal(t, "https://app.example.test", a.header.Get("Access-Control-Allow-Origin"))
	allowed := strings.ToLower(a.header.Get("Access-Control-Allow-Headers"))
	for _, name := range []string{"authorization", "last-event-id", "x-tenant-id", "cache-control"} {
		require.Contains(t, allowed, name)
	}
	require.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))

	other := send(t, "OPTIONS", url+"/v1/stream", "", append(ask, "Origin", "https://evil.example.test")...)
	require.Empty(t, other.header.Get("Access-Control-Allow-Origin"))

	failed := send(t, "POST", url+"/v1/ingest?table=nosuch", "", "Origin", "https://app.example.test")
	require.Equal(t, "https://app.example.test", failed.header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, failed.header.Get("Access-Control-Expose-Headers"), "Retry-After")
	require.Contains(t, failed.header.Get("Access-Control-Expose-Headers"), "X-Cache")
}

func TestProbes(t *testing.T) {
	rig := newRig(t, writerPolicy)
	rig.loaded, rig.pending = false, map[tenant.ID]error{"0": errors.New("refused")}
	rig.pings = map[string]error{"localhost:9000/default": errors.New("connection refused")}
	var advice []string
	rig.options.Advice = func() []string { return advice }
	server := NewServer(rig.options)
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)

	a := send(t, "GET", web.URL+"/livez", "")
	require.Equal(t, 503, a.status)
	require.Contains(t, a.body, "tenant 0: schema discovery: refused")
	require.Equal(t, 503, send(t, "GET", web.URL+"/v1/health", "").status)
	ingested := send(t, "POST", web.URL+"/v1/ingest?table=pages", "{}", "Content-Type", "application/json")
	require.Equal(t, "schema.not_loaded", ingested.json(t)["code"])
	require.Equal(t, "5", ingested.header.Get("Retry-After"))

	rig.loaded = true
	require.Equal(t, 200, send(t, "GET", web.URL+"/livez", "").status)
	a = send(t, "GET", web.URL+"/readyz", "")
	require.Equal(t, 503, a.status)
	require.Contains(t, a.body, "localhost:9000/default: connection refused")

	rig.pings["other:9000/x"] = nil
	require.Equal(t, 200, send(t, "GET", web.URL+"/readyz", "").status)
	rig.full = errors.New("2% of the volume is free")
	require.Contains(t, send(t, "GET", web.URL+"/readyz", "").body, "2% of the volume is free")
	rig.full = nil
	a = send(t, "GET", web.URL+"/readyz", "")
	require.Equal(t, 200, a.status)
	require.NotContains(t, a.body, "warnings")
	rig.damages = []mq.Damage{{Tenant: "birch", Store: mq.StoreQueue, Lost: 252, First: 217, Last: 468}}
	rig.unavailable = map[tenant.ID]error{"cedar": errors.New("no folder")}
	a = send(t, "GET", web.URL+"/readyz", "")
	require.Equal(t, 200, a.status, "one tenant's trouble is no reason to send the others elsewhere")
	require.Contains(t, a.body, "252 chunks lost, from 217 to 468")
	require.Contains(t, a.body, "queue of tenant cedar cannot be opened: no folder")
	advice = []string{"cache: away"}
	a = send(t, "GET", web.URL+"/readyz", "")
	require.Equal(t, 200, a.status, "what can be done without is no reason")
	require.Contains(t, a.body, `"warnings":["cache: away",`)
	server.BeginStop()
	require.Equal(t, 503, send(t, "GET", web.URL+"/readyz", "").status)
	require.Equal(t, "v1", send(t, "GET", web.URL+"/version", "").json(t)["version"])
	require.Equal(t, 200, send(t, "HEAD", web.URL+"/livez", "").status)
}

func replaceSettings(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}
