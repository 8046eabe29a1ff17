package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

func TestRawSQLErrors(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	for statement, code := range map[string]int{
		"SELEC 1": 62, "SELECT * FROM no_such_table": 60, "SELECT CAST('300x' AS UInt8)": 6, "SELECT throwIf(1)": 395, "SELECT 1; SELECT 2": 62,
	} {
		a := s.opsSQL(statement)
		p := refused(t, a, http.StatusBadRequest, "clickhouse.rejected")
		assert.Equal(t, code, p.ClickHouseCode, a.body)
		assert.False(t, p.Retryable)
		assert.Equal(t, "no-store", a.header.Get("Cache-Control"))
	}
	refused(t, s.opsSQL(""), http.StatusBadRequest, "query.invalid")
	refused(t, s.opsSQL(" \n"), http.StatusBadRequest, "query.invalid")
	refused(t, s.ops(http.MethodPost, "/v1/ops/query", ""), http.StatusBadRequest, "body.empty")
	refused(t, s.ops(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1","x":1}`), http.StatusBadRequest, "query.invalid")
	refused(t, s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, as(t, "viewer")...), http.StatusForbidden, "auth.forbidden")
	s.o.proxy.Set(clickhousetest.ResetBeforeBody())
	a := s.opsSQL("SELECT 1")
	assert.True(t, refused(t, a, http.StatusServiceUnavailable, "clickhouse.unavailable").Retryable)
	assert.Equal(t, "5", a.header.Get("Retry-After"))
}

func TestStatementTheUserMayNotRun(t *testing.T) {
	t.Parallel()
	s := start(t, options{username: clickhousetest.NarrowUser}, pagesTable)
	a := s.opsSQL("SELECT * FROM pages")
	p := refused(t, a, http.StatusBadGateway, "clickhouse.misconfigured")
	assert.Equal(t, 497, p.ClickHouseCode)
	assert.Contains(t, p.Error, "necessary to have the grant SELECT", "who operates the server is told which")
	assert.NotEmpty(t, s.logs.lines(`"level":"WARN"`, "clickhouse.misconfigured", "necessary to have the grant SELECT"))
}

func TestOpsQueryAnswers(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"1","page":"/a"}`)
	a := s.opsSQL("SELECT event_id, page FROM pages")
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, "application/json", a.header.Get("Content-Type"))
	assert.Equal(t, `[{"event_id":"1","page":"/a"}]`, strings.TrimSpace(a.body))
	assert.Equal(t, "[]", strings.TrimSpace(s.opsSQL("SELECT event_id FROM pages WHERE 0").body))
	assert.Equal(t, "[]", strings.TrimSpace(s.opsSQL("CREATE TABLE made (id UInt8) ENGINE = Memory").body))
	a = s.opsSQL("SELECT event_id FROM pages FORMAT CSV")
	assert.Equal(t, "\"1\"\n", a.body)
	assert.Contains(t, a.header.Get("Content-Type"), "text/csv")
	a = s.opsSQL("SELECT event_id FROM pages FORMAT JSONEachRow")
	assert.Equal(t, "{\"event_id\":\"1\"}\n", a.body, "the statement's own format stays")
	assert.Contains(t, a.header.Get("Content-Type"), "ndjson")
	assert.Equal(t, http.StatusOK, s.ops(http.MethodPost, "/v1/ops/query?tenant=0", `{"sql":"SELECT 1"}`).status)
	assert.Equal(t, http.StatusNotFound, s.ops(http.MethodPost, "/v1/ops/query?tenant=other", `{"sql":"SELECT 1"}`).status)
	assert.Equal(t, http.StatusBadRequest, s.ops(http.MethodPost, "/v1/ops/query?tenant=", `{"sql":"SELECT 1"}`).status)
}

func TestSchemaChangeThroughRawSQL(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	alter := func(statement string) {
		a := s.opsSQL(statement)
		require.Equal(t, http.StatusOK, a.status, a.body)
	}
	const record = `{"event_id":"v","page":"/x","ref":"r"}`
	for _, statements := range [][2]string{
		{"ALTER TABLE pages ADD COLUMN ref String", "ALTER TABLE pages DROP COLUMN ref"},
		{"alter table pages add column ref String", "alter table pages drop column ref"},
		{"/* new */ ALTER TABLE pages ADD COLUMN ref String", "-- old\nALTER TABLE pages DROP COLUMN ref"},
	} {
		alter(statements[0])
		a := s.ingest("pages", record)
		require.Equal(t, http.StatusOK, a.status, "%s: %s", statements[0], a.body)
		s.eventually(func() string {
			return unless(s.ch.Value(t, "SELECT count() FROM pages WHERE ref = 'r'") == "1", "it is not stored")
		})
		alter("TRUNCATE TABLE pages")
		alter(statements[1])
		refused(t, s.ingest("pages", record), http.StatusBadRequest, "record.unknown_column")
	}
	refused(t, s.opsSQL("ALTER TABLE pages ADD COLUMN ref String; SELECT 1"), http.StatusBadRequest, "clickhouse.rejected")
	alter("DROP TABLE pages SYNC")
	refused(t, s.ingest("pages", record), http.StatusNotFound, "table.unknown")
	assert.Zero(t, s.parked())
}

func TestLivenessReadinessAndALateClickHouse(t *testing.T) {
	t.Parallel()
	ch := clickhousetest.StartPrivate(t)
	ch.Exec(t, pagesTable)
	ch.Stop(t)
	o := options{clickhouse: ch, early: true}
	s := start(t, o)
	get := func(path string) answer { return s.do(http.MethodGet, path, "") }
	a := get("/livez")
	assert.Equal(t, http.StatusServiceUnavailable, a.status)
	assert.Contains(t, a.body, `"degraded"`)
	s.eventually(func() string {
		return unless(strings.Contains(get("/readyz").body, "schema discovery: "), get("/readyz").body)
	})
	assert.Equal(t, http.StatusServiceUnavailable, get("/readyz").status)
	assert.Equal(t, http.StatusServiceUnavailable, get("/v1/health").status)
	assert.Equal(t, http.StatusOK, get("/version").status)
	assert.Equal(t, http.StatusOK, get("/metrics").status)
	a = s.ingest("pages", `{"event_id":"1","page":"/"}`)
	refused(t, a, http.StatusServiceUnavailable, "schema.not_loaded")
	assert.Equal(t, "5", a.header.Get("Retry-After"))

	ch.Restart(t)
	s.await()
	assert.Equal(t, http.StatusOK, get("/livez").status)
	assert.Equal(t, http.StatusOK, get("/v1/health").status)
	s.accept("pages", lines("a", 1))
	s.stored("pages", 1)

	ch.Stop(t)
	s.eventually(func() string {
		return unless(get("/readyz").status == http.StatusServiceUnavailable, "it is still ready")
	})
	assert.Contains(t, get("/readyz").body, ch.HTTPAddr()+"/"+ch.Database)
	assert.Equal(t, http.StatusOK, get("/livez").status)
	s.accept("pages", lines("b", 20))
	ch.Restart(t)
	s.stored("pages", 21)
	s.await()
	assert.Zero(t, s.parked())
}

func TestNothingSecretInLogsOrAnswers(t *testing.T) {
	t.Parallel()
	ch := clickhousetest.Start(t)
	proxy := clickhousetest.NewFaultProxy(t, ch.HTTPAddr())
	s := start(t, options{
		clickhouse: ch, proxy: proxy, username: clickhousetest.SecuredUser, password: clickhousetest.SecuredPassword, logLevel: "debug",
	}, guardedTable, pagesTable,
		`CREATE TABLE remote_t (id String) ENGINE = URL('http://engine-user:engine-secret-55aa@127.0.0.1:1/data', 'CSV')`)
	admin := token(t, jwt.MapClaims{"role": "admin", "private": "claim-secret-9d"})
	bearer := []string{"Authorization", "Bearer " + admin}
	var shown strings.Builder
	keep := func(a answer) {
		shown.WriteString(a.body)
		for name, values := range a.header {
			shown.WriteString(name + ": " + strings.Join(values, ",") + "\n")
		}
	}
	keep(s.do(http.MethodPost, "/v1/ingest?table=guarded", `{"id":"1","n":5000}`, append(bearer, "Content-Type", "application/json")...))
	s.eventually(func() string { return unless(s.parked() == 1, "parked") })
	for _, path := range []string{
		"/v1/ops/schema", "/v1/ops/schema?table=remote_t", "/v1/ops/tenants", "/v1/ops/dlq/stats", "/v1/ops/dlq/rows?table=guarded",
		"/metrics", "/version", "/readyz", "/livez", "/openapi.json", "/v1/nowhere?token=" + admin,
	} {
		keep(s.do(http.MethodGet, path, "", bearer...))
		keep(s.ops(http.MethodGet, path, ""))
	}
	keep(s.do(http.MethodGet, "/v1/ops/tenants", "", "X-Operator-Key", operatorKey[:len(operatorKey)-1]))
	keep(s.do(http.MethodGet, "/v1/ops/tenants", "", "Authorization", "Operator "+operatorKey+"x"))
	keep(s.query("pages", `{"select_all":true}`, bearer...))
	keep(s.opsSQL("SELECT * FROM remote_t SETTINGS http_max_tries = 1"))
	keep(s.opsSQL("SELEC 1"))
	s.o.username = "no-such-user"
	s.writeSettings()
	keep(s.reload())
	keep(s.opsSQL("SELECT 1"))
	keep(s.do(http.MethodGet, "/readyz", ""))
	proxy.Set(clickhousetest.ResetAfterBody())
	keep(s.opsSQL("SELECT 1"))
	s.stop()
	for _, secret := range []string{
		operatorKey[:len(operatorKey)-1], jwtSecret, clickhousetest.SecuredPassword, "s3cured", admin[:20], admin[len(admin)-20:], "claim-secret-9d", "engine-secret-55aa",
	} {
		assert.NotContains(t, shown.String(), secret, "an answer")
		assert.NotContains(t, s.logs.String(), secret, "the log")
	}
	assert.NotContains(t, shown.String(), "engine-user", "no connection details of a table's engine")
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	refused(t, s.do(http.MethodGet, "/nope", ""), http.StatusNotFound, "route.unknown")
	a := s.do(http.MethodGet, "/v1/ingest?table=pages", "")
	refused(t, a, http.StatusMethodNotAllowed, "method.not_allowed")
	assert.Contains(t, a.header.Values("Allow"), http.MethodPost)
	a = s.do(http.MethodGet, "/livez", "", "X-Request-ID", "mine-1")
	assert.Equal(t, "mine-1", a.header.Get("X-Request-Id"))
	a = s.do(http.MethodGet, "/livez", "", "X-Request-ID", "with space")
	assert.NotEqual(t, "with space", a.header.Get("X-Request-Id"))
	for _, path := range []string{"/v1/ingest", "/v1/query", "/v1/ingest?table="} {
		refused(t, s.do(http.MethodPost, path, "{}", "Content-Type", "application/json"), http.StatusBadRequest, "table.missing")
	}
	refused(t, s.ingest("nosuch", "{}"), http.StatusNotFound, "table.unknown")
	refused(t, s.query("nosuch", "{}"), http.StatusNotFound, "table.unknown")
}

func TestAStatementOfOpsReadsUnlessItIsSaidToWrite(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable, `INSERT INTO pages (event_id, page) VALUES ('1', 'a\tb'), ('2', '/')`)
	ask := func(document string) answer { return s.ops(http.MethodPost, "/v1/ops/query", document) }
	for _, sql := range []string{"INSERT INTO pages (event_id) VALUES ('3')", "TRUNCATE TABLE pages", "/* SELECT */ DROP TABLE pages", "SYSTEM FLUSH LOGS", "SELEKT 1"} {
		a := ask(`{"sql":` + quoted(sql) + `}`)
		refused(t, a, http.StatusBadRequest, "query.may_write")
		assert.Contains(t, a.body, `\"write\": true`, sql)
	}
	// What reads by its verb is told to ClickHouse not to write.
	a := ask(`{"sql":"SELECT 1 SETTINGS readonly = 0"}`)
	assert.NotEqual(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, http.StatusOK, ask(`{"sql":"INSERT INTO pages (event_id) VALUES ('3')","write":true}`).status)
	assert.Equal(t, 3, s.ch.Count(t, "pages"))
	a = ask(`{"sql":"SELECT event_id FROM pages WHERE page = {page:String} AND has({ids:Array(String)}, event_id)","params":{"page":"a\tb","ids":"['1','2']"}}`)
	assert.JSONEq(t, `[{"event_id":"1"}]`, a.body)
	refused(t, ask(`{"sql":"SELECT 1","params":{"n":7}}`), http.StatusBadRequest, "query.invalid")
}

func TestOperationsAreAudited(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"admin_role":"admin","tables":{}}`}, pagesTable)
	admin := bearer(t, jwt.MapClaims{"role": "admin", "sub": "ann"})
	s.writeFile("roles.json", `{"roles":["admin","viewer"]}`)
	require.Equal(t, http.StatusOK, s.reload().status)
	s.opsSQL("INSERT INTO pages (event_id) VALUES ('a-private-value')")
	s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, admin...)
	s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, as(t, "viewer")...)
	s.do(http.MethodGet, "/v1/ops/tenants", "", "X-Operator-Key", operatorKey)
	s.stop() // then all is in the log
	assert.Len(t, s.logs.lines(`"msg":"audit"`, `"by":"operator"`, `"path":"/v1/ops/query"`, `"statement":"INSERT INTO pages (event_id) VALUES (?)"`, `"write":true`, `"outcome":"ok"`), 1)
	assert.Len(t, s.logs.lines(`"msg":"audit"`, `token \"admin\" \"ann\"`, `"outcome":"ok"`), 1)
	assert.Len(t, s.logs.lines(`"msg":"audit"`, `token \"viewer\"`, `"outcome":"auth.forbidden"`), 1)
	assert.Len(t, s.logs.lines(`"msg":"audit"`, `"path":"/v1/ops/settings/reload"`, `"of":"0"`), 1)
	assert.Empty(t, s.logs.lines(`"msg":"audit"`, `"path":"/v1/ops/tenants"`), "who only looks")
	assert.Empty(t, s.logs.lines("a-private-value"))
}

func TestOneLineForEachRequest(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	const id = "the-one-that-failed"
	s.o.proxy.Set(clickhousetest.ResetBeforeBody())
	refused(t, s.query("pages", `{"select_all":true}`, "X-Request-ID", id), http.StatusServiceUnavailable, "clickhouse.unavailable")
	// The line comes when the answer is gone.
	s.eventually(func() string { return unless(len(s.logs.lines(id)) == 1, "the request's line") })
	assert.Len(t, s.logs.lines(id, `"level":"WARN"`, `"status":503`, `"code":"clickhouse.unavailable"`, `"table":"pages"`), 1)
	s.query("pages", "{", "X-Request-ID", "a-mistake")
	s.stop()
	assert.Empty(t, s.logs.lines("a-mistake"), "the caller's fault, without an access log")
	s.o.env = []string{"WH_LOG_ACCESS=true"}
	s.o.proxy.Set(clickhousetest.Pass())
	s.run()
	s.query("pages", "{", "X-Request-ID", "a-mistake")
	s.eventually(func() string {
		return unless(len(s.logs.lines("a-mistake", `"level":"INFO"`, `"method":"POST"`, `"route":"/v1/query"`)) == 1, "the request's line")
	})
}
