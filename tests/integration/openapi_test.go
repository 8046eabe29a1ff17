package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// question is a request and the status that it is answered with.
type question struct {
	status  int
	target  string
	body    string
	headers []string
}

func (q question) contentType() string {
	for i := 0; i+1 < len(q.headers); i += 2 {
		if q.headers[i] == "Content-Type" {
			return q.headers[i+1]
		}
	}
	return ""
}

const (
	countRows = `{"columns":["page"],"aggregations":[{"fn":"count","column":"*","alias":"n"}],"group_by":["page"],
		"filters":[{"column":"n","op":"gte","value":0}],"order_by":[{"column":"n","dir":"desc"}],"limit":5,"offset":0,
		"time_range":{"column":"ts","since":"1h"},"time_bucket":{"column":"ts","every":"5m","alias":"t"},"int64":"string"}`
	countSecrets = `{"aggregations":[{"fn":"count","column":"*"}]}`
)

// unprovoked are the documented answers that only a bug of the server, the end
// of a server, or two requests at the very same time bring.
func unprovoked(answer string) bool {
	return strings.HasSuffix(answer, " 500") || strings.HasPrefix(answer, "POST /v1/ops/dlq/") && strings.HasSuffix(answer, " 409") ||
		answer == "DELETE /v1/ops/dlq/rows 409"
}

// The document is what the server does: every answer here is one of those it
// promises, of the shape it promises, and each that it promises is seen.
func TestOpenAPIIsWhatTheServerDoes(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{
		config: map[string]string{"stream": `{"max_subscribers":1}`},
		policies: `{"default_role":"public","tables":{
			"pages":{"public":{"select":{},"insert":{}}}, "secrets":{"writer":{"select":{},"insert":{}}}}}`,
	}, pagesTable, "CREATE TABLE secrets (n Int64) ENGINE = MergeTree ORDER BY n", "INSERT INTO pages (event_id, page, n) VALUES ('1','/home',3)")
	s.adopt(`{"pipes":[
		{"name":"top","description":"pages","sql":"SELECT page, n FROM pages WHERE n >= {{least:0}} ORDER BY n","allowed_roles":["public"],
		 "parameters":[{"name":"least","type":"number","default":0,"description":"n"}],"cache":{"ttl":"30s"},"reads":["pages"]},
		{"name":"add","sql":"INSERT INTO pages (event_id) VALUES ({{id}})","allowed_roles":["public"],"parameters":[{"name":"id","type":"string","required":true}]},
		{"name":"closed","sql":"SELECT 1","allowed_roles":["writer"]}]}`)
	c := readContract(t, s.do(http.MethodGet, "/openapi.json", "").body)
	d := &driver{t: t, s: s, c: c}
	d.data()
	d.pipes()
	d.stream()
	d.ops()
	d.deadLetters()
	d.waits()
	d.probes()
	d.faults()
	d.blind()
	d.limited()
	d.claimed()

	var missed []string
	for _, answer := range c.answers() {
		if !c.seen[answer] && !unprovoked(answer) {
			missed = append(missed, answer)
		}
	}
	assert.Empty(t, missed, "documented, and never seen")
}

// driver asks a server and holds its answers to the document.
type driver struct {
	t *testing.T
	s *server
	c *contract
}

func (d *driver) ask(method, route string, questions ...question) answer {
	d.t.Helper()
	var last answer
	for _, q := range questions {
		last = d.s.do(method, q.target, q.body, q.headers...)
		what := fmt.Sprintf("%s %s", method, q.target)
		assert.Equal(d.t, q.status, last.status, "%s: %s", what, last.body)
		d.hold(method, route, q, last)
	}
	return last
}

func (d *driver) hold(method, route string, q question, a answer) {
	d.t.Helper()
	what := fmt.Sprintf("%s %s: %d", method, q.target, a.status)
	assert.NoError(d.t, d.c.answered(method, route, a), what)
	if a.status < http.StatusBadRequest {
		assert.NoError(d.t, d.c.asked(method, route, q), what)
	}
}

func jsonBody(more ...string) []string { return append(more, "Content-Type", "application/json") }

func operator(more ...string) []string { return append(more, "X-Operator-Key", operatorKey) }

// badToken is refused wherever a caller without a token is.
func badToken() []string { return []string{"Authorization", "Bearer nobody"} }

const problemJSON = "application/problem+json"

func (d *driver) data() {
	d.t.Helper()
	const route = "/v1/ingest"
	row, rows := `{"event_id":"a","page":"/"}`, `[{"event_id":"b"},{"event_id":"c","nope":1}]`
	d.ask(http.MethodPost, route,
		question{200, route + "?table=pages", row, jsonBody()},
		question{200, route + "?table=pages&results=all", rows, jsonBody()},
		question{200, route + "?table=pages", row + "\n", []string{"Content-Type", ndjson}},
		question{200, route + "?table=pages", "event_id,page\nd,/\n", []string{"Content-Type", "text/csv"}},
		question{200, route + "?table=pages", row, jsonBody("Idempotency-Key", "k")},
		question{200, route + "?table=pages", row, jsonBody("Idempotency-Key", "k")},
		question{422, route + "?table=pages", rows, jsonBody("Idempotency-Key", "k")},
		question{200, route + "?table=pages&wait=inserted&timeout=50s", row, jsonBody()},
		question{200, route + "?table=pages&wait=inserted&timeout=50s", rows, jsonBody()},
		question{400, route + "?table=pages", `{"event_id":"a","nope":1}`, jsonBody()},
		question{400, route + "?table=pages", `{"event_id":"a","nope":1}`, jsonBody("Accept", problemJSON)},
		question{401, route + "?table=secrets", row, jsonBody(badToken()...)},
		question{403, route + "?table=secrets", row, jsonBody()},
		question{403, route + "?table=nowhere", row, jsonBody()},
		question{404, route + "?table=nowhere", row, jsonBody(operator()...)},
		question{413, route + "?table=pages", strings.Repeat(" ", 16<<20+1), jsonBody()},
		question{415, route + "?table=pages", row, nil},
	)
	const query = "/v1/query"
	a := d.ask(http.MethodPost, query,
		question{200, query + "?table=pages&position=1", `{"select_all":true}`, nil},
		question{200, query + "?table=pages", countRows, []string{"Accept", ndjson}},
		question{200, query + "?table=pages", countRows, []string{"Accept", "text/csv"}},
		question{200, query + "?table=pages", countRows, []string{"Accept", "text/tab-separated-values"}},
		question{200, query + "?table=pages", countRows, []string{"Accept", "application/vnd.apache.parquet"}},
		question{200, query + "?table=pages", countRows, nil},
	)
	d.ask(http.MethodPost, query,
		question{304, query + "?table=pages", countRows, []string{"If-None-Match", a.header.Get("ETag")}},
		question{400, query + "?table=pages", `{"columns":["nope"]}`, []string{"Accept", problemJSON}},
		question{400, query, `{"columns":["page"]}`, []string{"X-Tenant-Id", "a b"}},
		question{401, query + "?table=secrets", countSecrets, badToken()},
		question{403, query + "?table=secrets", countSecrets, nil},
		question{404, query + "?table=pages", countRows, []string{"X-Tenant-Id", "nobody"}},
		question{406, query + "?table=pages", countRows, []string{"Accept", "text/html"}},
		question{413, query + "?table=pages", strings.Repeat(" ", 1<<20+1), nil},
		question{415, query + "?table=pages", countRows, []string{"Content-Encoding", "br"}},
	)
}

func (d *driver) pipes() {
	d.t.Helper()
	const route, top = "/v1/pipes/{name}", "/v1/pipes/top"
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		a := d.ask(method, route,
			question{200, top + "?least=1&int64=string", "", nil},
		)
		d.ask(method, route,
			question{304, top + "?least=1&int64=string", "", []string{"If-None-Match", a.header.Get("ETag")}},
			question{400, top + "?least=many", "", nil},
			question{401, "/v1/pipes/closed", "", badToken()},
			question{403, "/v1/pipes/closed", "", nil},
			question{403, "/v1/pipes/nothing", "", nil},
			question{404, "/v1/pipes/nothing", "", operator()},
			question{406, top, "", []string{"Accept", "text/html"}},
		)
	}
	d.ask(http.MethodGet, route, question{405, "/v1/pipes/add?id=1", "", nil})
	d.ask(http.MethodPost, route,
		question{200, "/v1/pipes/add?id=1", "", nil},
		question{200, top, `{"least":2}`, nil},
		question{413, top, strings.Repeat(" ", 1<<20+1), nil},
		question{415, top, `{}`, []string{"Content-Encoding", "br"}},
	)
}

func (d *driver) stream() {
	d.t.Helper()
	const route = "/v1/stream"
	d.ask(http.MethodGet, route,
		question{400, route, "", nil},
		question{400, route + "?table=pages&last_event_id=nonsense", "", nil},
		question{401, route + "?table=secrets&token=nobody", "", nil},
		question{403, route + "?table=secrets", "", nil},
		question{404, route + "?table=pages", "", []string{"X-Tenant-Id", "nobody"}},
	)
	q := question{target: route + "?table=pages&since=" + url.QueryEscape("2026-01-02T03:04:05Z") + "&int64=string"}
	open, err := d.s.client.Get(d.s.url + q.target) //nolint:bodyclose // closed below
	require.NoError(d.t, err)
	opening := make([]byte, 16)
	_, err = io.ReadFull(open.Body, opening)
	require.NoError(d.t, err)
	d.hold(http.MethodGet, route, q, answer{open.StatusCode, open.Header, string(opening)})
	d.ask(http.MethodGet, route, question{429, route + "?table=pages", "", nil})
	require.NoError(d.t, open.Body.Close())

	const health = "/v1/health"
	d.ask(http.MethodGet, health,
		question{200, health, "", nil},
		question{400, health, "", []string{"X-Tenant-Id", "a b"}},
		question{404, health, "", []string{"X-Tenant-Id", "nobody"}},
	)
	d.limits()
}

// limits are asked by callers with a role, and of a policy that has none for them.
func (d *driver) limits() {
	d.t.Helper()
	const limits = "/v1/limits"
	d.ask(http.MethodGet, limits,
		question{200, limits, "", nil},
		question{200, limits, "", operator()},
		question{400, limits, "", []string{"X-Tenant-Id", "a b"}},
		question{404, limits, "", []string{"X-Tenant-Id", "nobody"}},
	)
	d.t.Run("without a default role", func(t *testing.T) {
		b := &driver{t: t, s: start(t, options{policies: `{"tables":{}}`}), c: d.c}
		b.ask(http.MethodGet, limits, question{403, limits, "", nil}, question{401, limits, "", badToken()})
	})
}

// opsRoutes are asked for what every ops route refuses alike.
func opsRoutes() map[string]string {
	return map[string]string{
		"/v1/ops/query": http.MethodPost, "/v1/ops/fleet": http.MethodGet, "/v1/ops/schema": http.MethodGet, "/v1/ops/schema/refresh": http.MethodPost,
		"/v1/ops/pipes": http.MethodGet, "/v1/ops/pipes/{name}": http.MethodGet, "/v1/ops/tenants": http.MethodGet, "/v1/ops/types": http.MethodGet, "/v1/ops/drift": http.MethodGet,
		"/v1/ops/dlq/stats": http.MethodGet, "/v1/ops/dlq/rows": http.MethodGet, "/v1/ops/dlq/replay": http.MethodPost, "/v1/ops/settings/reload": http.MethodPost,
	}
}

func pathOf(route string) string { return strings.ReplaceAll(route, "{name}", "top") }

func (d *driver) ops() {
	d.t.Helper()
	for route, method := range opsRoutes() {
		path := pathOf(route)
		d.ask(method, route,
			question{400, path, "", operator("Authorization", "Bearer a", "Authorization", "Bearer b")},
			question{401, path, "", badToken()},
			question{403, path, "", nil},
		)
		if route != "/v1/ops/tenants" && route != "/v1/ops/fleet" {
			d.ask(method, route,
				question{400, path + "?tenant=", "", operator()},
				question{404, path + "?table=pages&role=public&tenant=nobody", "", operator()},
			)
		}
	}
	const query = "/v1/ops/query"
	d.ask(http.MethodPost, query,
		question{200, query + "?tenant=0", `{"sql":"SELECT 1 AS one"}`, operator()},
		question{200, query, `{"sql":"SELECT 1 AS one FORMAT TSV"}`, operator()},
		question{400, query, `{"sql":"SELEKT"}`, operator()},
		question{200, query, `{"sql":"SELECT {n:UInt8} AS n","params":{"n":"7"},"write":false}`, operator()},
		question{200, query, `{"sql":"SELECT 1 AS one"}`, operator("Accept", "text/tab-separated-values")},
		question{406, query, `{"sql":"SELECT 1 AS one"}`, operator("Accept", "text/html")},
		question{413, query, strings.Repeat(" ", 1<<20+1), operator()},
		question{415, query, `{"sql":"SELECT 1"}`, operator("Content-Encoding", "br")},
	)
	for _, target := range []string{"/v1/ops/schema", "/v1/ops/schema?table=pages"} {
		d.ask(http.MethodGet, "/v1/ops/schema", question{200, target, "", operator()})
	}
	d.ask(http.MethodPost, "/v1/ingest", question{400, "/v1/ingest?table=pages", `{"event_id":"drift","pagina":1}`, jsonBody()})
	d.ask(http.MethodGet, "/v1/ops/drift", question{200, "/v1/ops/drift", "", operator()})
	d.ask(http.MethodPost, "/v1/ops/schema/refresh", question{200, "/v1/ops/schema/refresh?tenant=0", "", operator()})
	d.ask(http.MethodGet, "/v1/ops/pipes", question{200, "/v1/ops/pipes", "", operator()})
	d.ask(http.MethodGet, "/v1/ops/pipes/{name}", question{200, "/v1/ops/pipes/top", "", operator()})
	d.ask(http.MethodGet, "/v1/ops/fleet", question{200, "/v1/ops/fleet", "", operator()})
	d.ask(http.MethodGet, "/v1/ops/tenants", question{200, "/v1/ops/tenants", "", operator()})
	d.ask(http.MethodGet, "/v1/ops/types",
		question{200, "/v1/ops/types?role=writer", "", operator()}, question{400, "/v1/ops/types", "", operator()},
		question{406, "/v1/ops/types?role=writer", "", operator("Accept", "text/csv")})
	d.reload()
}

func (d *driver) reload() {
	d.t.Helper()
	const route = "/v1/ops/settings/reload"
	d.ask(http.MethodPost, route, question{200, route + "?tenant=0", "", operator()})
	d.s.writeFile("roles.json", `{"roles":`)
	d.ask(http.MethodPost, route, question{422, route, "", operator()})
	d.s.writeFile("roles.json", `{"roles":["public","viewer","writer","analyst"]}`)
	d.ask(http.MethodPost, route, question{200, route, "", operator()})
}

// deadLetters parks a row and looks at it.
func (d *driver) deadLetters() {
	d.t.Helper()
	const stats, rows = "/v1/ops/dlq/stats", "/v1/ops/dlq/rows"
	d.s.ch.Exec(d.t, "CREATE TABLE picky (n Int64, CONSTRAINT small CHECK n < 10) ENGINE = MergeTree ORDER BY n")
	require.Equal(d.t, http.StatusOK, d.s.ops(http.MethodPost, "/v1/ops/schema/refresh", "").status)
	a := d.s.do(http.MethodPost, "/v1/ingest?table=picky", `{"n":11}`, jsonBody(operator()...)...)
	require.Equal(d.t, http.StatusOK, a.status, a.body)
	d.s.eventually(func() string { return unless(d.s.parked() == 1, "the row is parked") })
	d.ask(http.MethodGet, stats, question{200, stats + "?tenant=0", "", operator()})
	page := d.ask(http.MethodGet, rows, question{200, rows + "?table=picky&limit=2", "", operator()})
	assert.Contains(d.t, page.body, `"n":11`)
	id := decode[struct{ Rows []letter }](d.t, page).Rows[0].ID
	d.ask(http.MethodGet, rows,
		question{200, rows + "?id=" + id, "", operator()},
		question{404, rows + "?id=0-1", "", operator()},
	)
	const again = "/v1/ops/dlq/replay"
	all, large := `{"table":"picky","all":true}`, strings.Repeat(" ", 1<<20+1)
	d.ask(http.MethodPost, again,
		question{200, again + "?tenant=0", fmt.Sprintf(`{"table":"picky","ids":[%q],"dry_run":true}`, id), operator()},
		question{200, again, `{"table":"picky","ids":["0-1"]}`, operator()},
		question{413, again, large, operator()},
		question{415, again, all, operator("Content-Encoding", "br")},
	)
	d.ask(http.MethodDelete, rows,
		question{400, rows, `{"table":"picky"}`, operator()},
		question{401, rows, all, badToken()},
		question{403, rows, all, nil},
		question{404, rows + "?tenant=nobody", all, operator()},
		question{413, rows, large, operator()},
		question{415, rows, all, operator("Content-Encoding", "br")},
		question{200, rows + "?tenant=0", fmt.Sprintf(`{"table":"picky","ids":[%q]}`, id), operator()},
		question{200, rows, all, operator()},
	)
}

// waits are for rows that do not arrive in time.
func (d *driver) waits() {
	d.t.Helper()
	const route, query = "/v1/ingest", "?table=pages&wait=inserted&timeout=1ns"
	d.ask(http.MethodPost, route,
		question{202, route + query, `{"event_id":"late","page":"/"}`, jsonBody()},
		question{202, route + query, `{"event_id":"later","page":"/"}`, []string{"Content-Type", ndjson}},
	)
}

func (d *driver) probes() {
	d.t.Helper()
	for _, route := range []string{"/livez", "/healthz", "/readyz", "/version", "/metrics", "/openapi.json"} {
		d.ask(http.MethodGet, route, question{200, route, "", nil})
	}
}

// faults are those of a ClickHouse that answers what it never would.
func (d *driver) faults() {
	d.t.Helper()
	gateway := clickhousetest.Answer(http.StatusFound, http.Header{"Location": {"/elsewhere"}}, "")
	d.s.o.proxy.Set(gateway)
	defer d.s.o.proxy.Set(clickhousetest.Pass())
	d.ask(http.MethodPost, "/v1/query", question{502, "/v1/query?table=pages", `{"columns":["secret"]}`, nil})
	d.ask(http.MethodGet, "/v1/pipes/{name}", question{502, "/v1/pipes/top?least=77", "", nil})
	d.ask(http.MethodPost, "/v1/pipes/{name}", question{502, "/v1/pipes/top?least=78", "", nil})
	d.ask(http.MethodPost, "/v1/ops/query", question{502, "/v1/ops/query", `{"sql":"SELECT 1"}`, operator()})
}

// blind are the answers of a server that knows neither tables nor keys.
func (d *driver) blind() {
	d.t.Helper()
	s := start(d.t, options{httpPort: 1, early: true, config: newKeyServer(d.t).config()})
	b := &driver{t: d.t, s: s, c: d.c}
	for _, route := range []string{"/livez", "/healthz", "/readyz", "/v1/health"} {
		b.ask(http.MethodGet, route, question{503, route, "", nil})
	}
	b.ask(http.MethodPost, "/v1/ingest", question{503, "/v1/ingest?table=pages", `{}`, jsonBody()})
	b.ask(http.MethodPost, "/v1/query", question{503, "/v1/query?table=pages", countRows, nil})
	b.ask(http.MethodGet, "/v1/stream", question{503, "/v1/stream?table=pages", "", nil})
	b.ask(http.MethodPost, "/v1/ops/schema/refresh", question{503, "/v1/ops/schema/refresh", "", operator()})
	bearer := []string{"Authorization", "Bearer " + token(d.t, jwt.MapClaims{"role": "viewer"})}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		b.ask(method, "/v1/pipes/{name}", question{503, "/v1/pipes/top", "", bearer})
	}
	for route, method := range opsRoutes() {
		b.ask(method, route, question{503, pathOf(route), "", bearer})
	}
	b.ask(http.MethodGet, "/v1/limits", question{503, "/v1/limits", "", bearer})
	b.ask(http.MethodDelete, "/v1/ops/dlq/rows", question{503, "/v1/ops/dlq/rows", "", bearer})
}

// limited are the answers of a server whose tenant is at its limits: the first
// request of each kind uses them up for good.
func (d *driver) limited() {
	d.t.Helper()
	s := behindProxy(d.t, options{config: map[string]string{
		"ingest": `{"limits":{"rows_per_second":1,"burst":1}}`, "query": `{"limits":{"concurrent":1}}`,
	}, policies: d.s.o.policies}, pagesTable)
	l := &driver{t: d.t, s: s, c: d.c}
	s.adopt(`{"pipes":[{"name":"top","sql":"SELECT page FROM pages","allowed_roles":["public"],"cache":{"ttl":"0"}}]}`)
	s.accept("pages", lines("a", 500))
	s.stored("pages", 500) // so that their INSERT is not taken for the query that hangs
	l.ask(http.MethodPost, "/v1/ingest", question{429, "/v1/ingest?table=pages", `{}`, jsonBody()})
	s.o.proxy.Set(clickhousetest.Hang())
	go func() { _, _ = s.try(http.MethodGet, "/v1/pipes/top", nil) }()
	s.eventually(func() string {
		now, _ := s.o.proxy.Held()
		return unless(now > 0, "the only query does not run")
	})
	l.ask(http.MethodPost, "/v1/query", question{429, "/v1/query?table=pages", `{"select_all":true}`, nil})
	l.ask(http.MethodGet, "/v1/pipes/{name}", question{429, "/v1/pipes/top", "", nil})
	l.ask(http.MethodPost, "/v1/pipes/{name}", question{429, "/v1/pipes/top", "", jsonBody()})
}

// Answers that the document does not know, or of another shape, are found.
func TestOpenAPICheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	const text = `{"openapi":"3.1.0","paths":{"/a":{"get":{"parameters":[{"name":"n","in":"query","schema":{"type":"integer"}}],
		"responses":{"200":{"description":"","content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}},
		"400":{"$ref":"#/components/responses/Bad"}}}}},
		"components":{"responses":{"Bad":{"description":"","headers":{"Retry-After":{"schema":{"type":"integer"}}},"content":{"text/plain":{"schema":{"type":"string"}}}}},
		"schemas":{"A":{"type":"object","required":["ok"],"properties":{"ok":{"const":true}},"additionalProperties":false}}}}`
	c := readContract(t, text)
	typed := func(media string, more ...string) http.Header {
		header := http.Header{"Content-Type": {media}}
		for i := 0; i+1 < len(more); i += 2 {
			header.Set(more[i], more[i+1])
		}
		return header
	}
	require.NoError(t, c.answered("GET", "/a", answer{200, typed("application/json"), `{"ok":true}`}))
	require.NoError(t, c.answered("GET", "/a", answer{400, typed("text/plain", "Retry-After", "3"), "no"}))
	require.NoError(t, c.asked("GET", "/a", question{target: "/a?n=3"}))
	for name, err := range map[string]error{
		"status":    c.answered("GET", "/a", answer{201, typed("application/json"), `{"ok":true}`}),
		"route":     c.answered("GET", "/b", answer{200, typed("application/json"), `{"ok":true}`}),
		"method":    c.answered("POST", "/a", answer{200, typed("application/json"), `{"ok":true}`}),
		"type":      c.answered("GET", "/a", answer{200, typed("text/csv"), `{"ok":true}`}),
		"shape":     c.answered("GET", "/a", answer{200, typed("application/json"), `{"ok":1}`}),
		"field":     c.answered("GET", "/a", answer{200, typed("application/json"), `{"ok":true,"more":1}`}),
		"empty":     c.answered("GET", "/a", answer{200, http.Header{}, ""}),
		"no body":   c.answered("GET", "/a", answer{200, typed("application/json"), ""}),
		"not JSON":  c.answered("GET", "/a", answer{200, typed("application/json"), `{"ok":true}}`}),
		"header":    c.answered("GET", "/a", answer{400, typed("text/plain", "Retry-After", "soon"), "no"}),
		"parameter": c.asked("GET", "/a", question{target: "/a?n=three"}),
		"unknown":   c.asked("GET", "/a", question{target: "/a?m=3"}),
		"a body":    c.asked("GET", "/a", question{target: "/a", body: "{}"}),
	} {
		assert.Error(t, err, name)
	}
	require.True(t, slices.Equal([]string{"GET /a 200", "GET /a 400"}, c.answers()))
}

// claimed is the answer while the outcome of a request with the same key is not
// known.
func (d *driver) claimed() {
	d.t.Helper()
	s := start(d.t, options{}, pagesTable)
	s.claimed(dedupe.RequestID("", nil, "held"))
	b := &driver{t: d.t, s: s, c: d.c}
	b.ask(http.MethodPost, "/v1/ingest", question{409, "/v1/ingest?table=pages", `{"event_id":"a","page":"/"}`, jsonBody("Idempotency-Key", "held")})
}
