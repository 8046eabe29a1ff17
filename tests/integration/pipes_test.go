package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// pipesFile is a pipes.json of the pipes, given as pairs of name and the rest of
// the definition; everyone may run them.
func pipesFile(pipes ...string) string {
	var list []string
	for i := 0; i+1 < len(pipes); i += 2 {
		list = append(list, `{"name":`+quoted(pipes[i])+`,"allowed_roles":["public"],`+pipes[i+1]+`}`)
	}
	return `{"pipes":[` + strings.Join(list, ",\n") + `]}`
}

// adopt writes a pipes.json and has it adopted.
func (s *server) adopt(pipes string) {
	s.t.Helper()
	s.writeFile("pipes.json", pipes)
	a := s.reload()
	require.Equal(s.t, http.StatusOK, a.status, a.body)
}

// pipe runs a pipe with the parameters of a query string.
func (s *server) pipe(call string, headers ...string) answer {
	s.t.Helper()
	return s.do(http.MethodGet, "/v1/pipes/"+call, "", headers...)
}

// pipeRows is pipe that must succeed.
func (s *server) pipeRows(call string, headers ...string) string {
	s.t.Helper()
	a := s.pipe(call, headers...)
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	require.Equal(s.t, "application/json", a.header.Get("Content-Type"))
	return compact(s.t, []byte(a.body))
}

const textParameter = `"parameters":[{"name":"note","type":"string"}]`

func TestWritePipesRunEveryTime(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE visits_log (note String, at DateTime64(3)) ENGINE = MergeTree ORDER BY at`)
	insert := `INSERT INTO visits_log (note, at) SELECT {{note}}, now64(3)`
	s.adopt(pipesFile(
		"visit", `"sql":`+quoted(insert)+`,`+textParameter,
		"commented", `"sql":`+quoted("-- SELECT\n/* SELECT */ "+insert)+`,`+textParameter,
		"with", `"sql":`+quoted(`WITH 1 AS one INSERT INTO visits_log (note, at) SELECT {{note}}, now64(3)`)+`,`+textParameter,
		"broken", `"sql":"INSERT INTO nowhere SELECT {{note}}",`+textParameter,
	))
	for _, name := range []string{"visit", "commented", "with"} {
		wrote := func() {
			a, err := s.try(http.MethodPost, "/v1/pipes/"+name, strings.NewReader(`{"note":`+quoted(name)+`}`))
			if !assert.NoError(t, err) {
				return
			}
			assert.Equal(t, http.StatusOK, a.status, a.body)
			assert.Equal(t, "[]\n", a.body)
			assert.Equal(t, "BYPASS", a.header.Get("X-Cache"))
			assert.Equal(t, "no-store", a.header.Get("Cache-Control"))
		}
		for range 5 {
			wrote()
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(wrote)
		}
		all.Wait()
		assert.Equal(t, "15", s.ch.Value(t, "SELECT count() FROM visits_log WHERE note = '"+name+"'"), name)
	}
	p := refused(t, s.do(http.MethodPost, "/v1/pipes/broken?note=x", ""), http.StatusBadRequest, "clickhouse.rejected")
	assert.False(t, p.Retryable)
}

// A write that cannot be sent is not reported retryable either.
func TestWritePipesAreNeverRetryable(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, `CREATE TABLE visits_log (note String) ENGINE = MergeTree ORDER BY note`)
	s.adopt(pipesFile("visit", `"sql":"INSERT INTO visits_log SELECT {{note}}",`+textParameter, "read", `"sql":"SELECT 1 AS one"`))
	s.proxy().Set(clickhousetest.ResetBeforeBody())
	for call, retryable := range map[string]bool{"visit?note=x": false, "read": true} {
		a := s.do(http.MethodPost, "/v1/pipes/"+call, "")
		require.GreaterOrEqual(t, a.status, 500, a.body)
		assert.Equal(t, retryable, decode[problem](t, a).Retryable, call)
		if !retryable {
			assert.Empty(t, a.header.Get("Retry-After"))
		}
	}
}

func (s *server) proxy() *clickhousetest.FaultProxy { return s.o.proxy }

func TestParameterValuesStayValues(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable,
		`INSERT INTO pages (event_id, page) VALUES ('1', '\\\' OR 1=1 --'), ('2', '\'\''), ('3', 'a'), ('4', 'b\'c'), ('5', 'tab\there\nand\\t')`)
	s.adopt(pipesFile(
		"one", `"sql":"SELECT event_id FROM pages WHERE page = {{page}} ORDER BY event_id","parameters":[{"name":"page","type":"string","required":true}]`,
		"some", `"sql":"SELECT event_id FROM pages WHERE page IN {{pages}} ORDER BY event_id","parameters":[{"name":"pages","type":"array(string)","required":true}]`,
		"first", `"sql":"SELECT event_id FROM pages ORDER BY event_id LIMIT {{limit:10}}","parameters":[{"name":"limit","type":"number"}]`,
	))
	before := s.proxy().Count()
	assert.Equal(t, `[{"event_id":"1"}]`, s.pipeRows(`one?page=\%27%20OR%201=1%20--`))
	assert.Equal(t, `[{"event_id":"2"}]`, s.pipeRows("one?page=%27%27"))
	assert.Equal(t, `[{"event_id":"5"}]`, s.pipeRows("one?page="+url.QueryEscape("tab\there\nand\\t")))
	assert.Equal(t, `[]`, s.pipeRows("one?page={page:String}"))
	assert.Equal(t, `[{"event_id":"1"},{"event_id":"2"}]`, s.pipeRows("first?limit=2"))
	assert.Equal(t, 5, strings.Count(s.pipeRows("first"), "event_id"))
	sent := s.proxy().Count() - before

	for _, call := range []string{"first?limit=1%20OR%201=1", "first?limit=1)%3BDROP%20TABLE%20pages", "first?limit=", "first?limit=1&limit=2", "first?limitt=1"} {
		refused(t, s.pipe(call), http.StatusBadRequest, "pipe.parameter_invalid")
	}
	refused(t, s.pipe("first?limit=1);DROP"), http.StatusBadRequest, "query_string.invalid")
	post := func(name, body string) answer { return s.do(http.MethodPost, "/v1/pipes/"+name, body) }
	p := refused(t, post("one", `{"page":{"a":1}}`), http.StatusBadRequest, "pipe.parameter_invalid")
	assert.Contains(t, p.Error, "page")
	refused(t, post("one", `{}`), http.StatusBadRequest, "pipe.parameter_missing")
	refused(t, post("one", `[]`), http.StatusBadRequest, "pipe.parameter_invalid")
	assert.Equal(t, sent, s.proxy().Count()-before, "nothing that was refused reached ClickHouse")

	assert.Equal(t, `[]`, compact(t, []byte(post("some", `{"pages":[]}`).body)))
	assert.Equal(t, `[{"event_id":"3"},{"event_id":"4"}]`, compact(t, []byte(post("some", `{"pages":["a","b'c"]}`).body)))
	assert.Equal(t, `[{"event_id":"5"}]`, compact(t, []byte(post("some", `{"pages":["tab\there\nand\\t"]}`).body)))
	assert.Equal(t, `[{"event_id":"3"},{"event_id":"4"}]`, s.pipeRows("some?pages=a&pages=b%27c"))
	for _, request := range s.proxy().Requests()[before:] {
		assert.NotContains(t, string(request.Body), "DROP")
		assert.NotContains(t, string(request.Body), "OR 1=1", "a value is not part of a statement")
	}
	assert.Equal(t, 5, s.ch.Count(t, "pages"))
}

// Every type arrives as what it says, where ClickHouse takes a value.
func TestPipeParameterTypes(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE other (x UInt8) ENGINE = Memory`, `CREATE TABLE some (x UInt8) ENGINE = Memory`, `INSERT INTO some VALUES (7)`)
	one := func(typ, sql string) string {
		return `"sql":` + quoted(sql) + `,"parameters":[{"name":"x","type":` + quoted(typ) + `}]`
	}
	s.adopt(pipesFile(
		"string", one("string", "SELECT {{x}} AS v"), "number", one("number", "SELECT {{x}} AS v, toTypeName(v) AS t"),
		"boolean", one("boolean", "SELECT {{x}} AS v, toTypeName(v) AS t"), "date", one("date", "SELECT {{x}} + 1 AS v, toTypeName(v) AS t"),
		"datetime", one("datetime", "SELECT toStartOfHour({{x}}) AS v"), "uuid", one("uuid", "SELECT {{x}} AS v, toTypeName(v) AS t"),
		"array", one("array(number)", "SELECT arraySum({{x}}) AS v"), "identifier", one("identifier(some|other)", "SELECT x AS v FROM {{x:some}}"),
		"page", one("number", "SELECT number AS v FROM numbers(5) ORDER BY v LIMIT 2 OFFSET {{x:1}}"),
	))
	for call, want := range map[string]string{
		"string?x=%E2%82%AC%00":                       `[{"v":"€\u0000"}]`,
		"string":                                      `[{"v":null}]`,
		"number?x=18446744073709551615":               `[{"v":18446744073709551615,"t":"UInt64"}]`,
		"number?x=-9223372036854775808":               `[{"v":-9223372036854775808,"t":"Int64"}]`,
		"number?x=18446744073709551615&int64=string":  `[{"v":"18446744073709551615","t":"UInt64"}]`,
		"number?x=1.5":                                `[{"v":1.5,"t":"Float64"}]`,
		"boolean?x=true":                              `[{"v":true,"t":"Bool"}]`,
		"date?x=2024-02-28":                           `[{"v":"2024-02-29","t":"Date"}]`,
		"datetime?x=2026-03-24T12:34:56.789Z":         `[{"v":"2026-03-24T12:00:00Z"}]`,
		"uuid?x=61F0C404-5CB3-11E7-907B-A6006AD3DBA0": `[{"v":"61f0c404-5cb3-11e7-907b-a6006ad3dba0","t":"UUID"}]`,
		"array?x=1&x=2&x=3":                           `[{"v":6}]`,
		"identifier":                                  `[{"v":7}]`,
		"identifier?x=other":                          `[]`,
		"page":                                        `[{"v":1},{"v":2}]`,
		"page?x=4":                                    `[{"v":4}]`,
	} {
		assert.Equal(t, want, s.pipeRows(call), call)
	}
}

func TestNaNThroughPipesAndOps(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE f (id UInt8, x Float64) ENGINE = MergeTree ORDER BY id`, `INSERT INTO f VALUES (1, nan), (2, inf), (3, 1.5)`)
	s.adopt(pipesFile("f", `"sql":"SELECT id, x FROM f ORDER BY id"`, "avg", `"sql":"SELECT avg(x) AS a, 1 AS one FROM f WHERE id > 9"`))
	want := `[{"id":1,"x":null},{"id":2,"x":null},{"id":3,"x":1.5}]`
	assert.Equal(t, want, s.pipeRows("f"))
	assert.Equal(t, `[{"a":null,"one":1}]`, s.pipeRows("avg"))
	a := s.query("f", `{"columns":["id","x"],"order_by":[{"column":"id"}]}`)
	assert.Equal(t, want, compact(t, []byte(a.body)))
	assert.Equal(t, want, compact(t, []byte(s.opsSQL("SELECT id, x FROM f ORDER BY id").body)))
}

func TestDigitsThroughPipes(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE w (a UInt64, b Int64, c Decimal(18,2), d Decimal(38,18), e UInt256) ENGINE = Memory`,
		`INSERT INTO w VALUES (18446744073709551615, -9223372036854775808, 1.10, 1.123456789012345678, 115792089237316195423570985008687907853269984665640564039457584007913129639935)`)
	s.adopt(pipesFile("w", `"sql":"SELECT * FROM w"`))
	want := `[{"a":18446744073709551615,"b":-9223372036854775808,"c":1.1,"d":1.123456789012345678,` +
		`"e":115792089237316195423570985008687907853269984665640564039457584007913129639935}]`
	assert.Equal(t, want, s.pipeRows("w"))
	assert.Contains(t, s.pipeRows("w?int64=string"), `"a":"18446744073709551615"`)
	assert.Equal(t, want, compact(t, []byte(s.query("w", `{"select_all":true}`).body)))
	assert.Equal(t, want, compact(t, []byte(s.opsSQL("SELECT * FROM w").body)))
}

func TestManyDifferentParameters(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{})
	s.adopt(pipesFile("heavy", `"sql":"SELECT number FROM numbers({{limit}})","parameters":[{"name":"limit","type":"number","required":true}]`))
	before := len(s.proxy().Requests())
	s.proxy().Set(clickhousetest.Delay(50 * time.Millisecond))
	var all sync.WaitGroup
	for limit := 1; limit <= 200; limit++ {
		all.Go(func() {
			a, err := s.try(http.MethodGet, fmt.Sprintf("/v1/pipes/heavy?limit=%d", limit), nil)
			if assert.NoError(t, err) && a.status != http.StatusOK {
				assert.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
				assert.NotEmpty(t, a.header.Get("Retry-After"))
			}
		})
	}
	all.Wait()
	_, peak := s.proxy().Held()
	assert.LessOrEqual(t, peak, 10, "max_open_conns")
	requests := s.proxy().Requests()[before:]
	assert.Len(t, requests, 200)
	for _, request := range requests {
		assert.Equal(t, "50", request.Query.Get("max_execution_time"), "query_timeout")
	}
}

// rolesPolicy has a default role, and roles that the pipes name.
const rolesPolicy = `{"default_role":"public","tables":{"*":{"public":{"select":{},"insert":{}}}}}`

func TestPipeRoles(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: rolesPolicy})
	s.adopt(`{"pipes":[
		{"name":"mine","sql":"SELECT 1 AS one","allowed_roles":["analyst"]},
		{"name":"nobodys","sql":"SELECT 1 AS one"}]}`)
	assert.Equal(t, `[{"one":1}]`, s.pipeRows("mine", as(t, "analyst")...))
	for _, name := range []string{"mine", "nobodys"} {
		assert.Equal(t, `[{"one":1}]`, s.pipeRows(name, as(t, "admin")...))
		assert.Equal(t, `[{"one":1}]`, s.pipeRows(name, "X-Operator-Key", operatorKey))
		refused(t, s.pipe(name), http.StatusForbidden, "auth.forbidden")
		refused(t, s.pipe(name, as(t, "Analyst")...), http.StatusForbidden, "auth.forbidden")
		refused(t, s.pipe(name, "Authorization", "Bearer x.y.z"), http.StatusUnauthorized, "auth.token_invalid")
	}
	refused(t, s.pipe("nobodys", as(t, "analyst")...), http.StatusForbidden, "auth.forbidden")
	refused(t, s.pipe("none"), http.StatusForbidden, "auth.forbidden")
	refused(t, s.pipe("none", as(t, "admin")...), http.StatusNotFound, "pipe.unknown")
	refused(t, s.do(http.MethodDelete, "/v1/pipes/mine", ""), http.StatusMethodNotAllowed, "method.not_allowed")

	s.writeFile("policies.json", `{}`)
	require.Equal(t, http.StatusOK, s.reload().status)
	for _, headers := range [][]string{as(t, "admin"), {"X-Operator-Key", operatorKey}, nil} {
		a := s.pipe("mine", headers...)
		assert.Equal(t, http.StatusForbidden, a.status, "no policy denies everyone: %s", a.body)
	}
}

func TestPipeClaims(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable, `INSERT INTO pages (event_id, org) VALUES ('1','birch'), ('2','cedar'), ('3','o''brien')`)
	s.adopt(pipesFile(
		"mine", `"sql":"SELECT event_id, {{ tenant }} AS tenant FROM pages WHERE org = {{ jwt.app.org }} ORDER BY event_id"`,
		"ours", `"sql":"SELECT event_id FROM pages WHERE org IN {{ jwt.orgs }} ORDER BY event_id"`,
	))
	bearer := func(claims jwt.MapClaims) []string {
		claims["role"] = "public"
		return []string{"Authorization", "Bearer " + token(t, claims)}
	}
	assert.Equal(t, `[{"event_id":"1","tenant":"0"}]`, s.pipeRows("mine", bearer(jwt.MapClaims{"app": map[string]any{"org": "birch"}})...))
	assert.Equal(t, `[{"event_id":"3","tenant":"0"}]`, s.pipeRows("mine", bearer(jwt.MapClaims{"app": map[string]any{"org": "o'brien"}})...))
	assert.Equal(t, `[{"event_id":"1"},{"event_id":"2"}]`, s.pipeRows("ours", bearer(jwt.MapClaims{"orgs": []string{"birch", "cedar"}})...))
	refused(t, s.pipe("mine", bearer(jwt.MapClaims{})...), http.StatusForbidden, "pipe.claim_missing")
	refused(t, s.pipe("mine"), http.StatusForbidden, "pipe.claim_missing")
	refused(t, s.pipe("mine", "X-Operator-Key", operatorKey), http.StatusForbidden, "pipe.claim_missing")
}

func TestOpsPipes(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.adopt(pipesFile(
		"b", `"sql":"SELECT {{n}}","description":"d","parameters":[{"name":"n","type":"number","default":18446744073709551615}],"cache":{"ttl":90},"reads":["t"],"policies":"caller"`,
		"a", `"sql":"INSERT INTO t SELECT 1"`,
	))
	a := s.ops(http.MethodGet, "/v1/ops/pipes", "")
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.JSONEq(t, `[
		{"name":"a","sql":"INSERT INTO t SELECT 1","parameters":[],"allowed_roles":["public"],"policies":"operator","writes":true},
		{"name":"b","description":"d","sql":"SELECT {{n}}","parameters":[{"name":"n","type":"number","required":false,"default":18446744073709551615}],
			"allowed_roles":["public"],"cache":{"ttl":"1m30s"},"reads":["t"],"policies":"caller","writes":false}]`, a.body)
	assert.Contains(t, a.body, "18446744073709551615")
	one := s.ops(http.MethodGet, "/v1/ops/pipes/b", "")
	assert.True(t, json.Valid([]byte(one.body)))
	assert.Contains(t, one.body, `"name":"b"`)
	refused(t, s.ops(http.MethodGet, "/v1/ops/pipes/c", ""), http.StatusNotFound, "pipe.unknown")
	refused(t, s.do(http.MethodGet, "/v1/ops/pipes", ""), http.StatusForbidden, "auth.forbidden")

	s.writeFile("pipes.json", pipesFile("b", `"sql":"SELECT '{{n}}'"`))
	a = s.reload()
	assert.Equal(t, http.StatusUnprocessableEntity, a.status)
	assert.Contains(t, a.body, "pipes[0].sql")
	assert.Equal(t, http.StatusOK, s.pipe("b").status, "what was adopted before goes on")
}

func TestSchemaChangeThroughOps(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"schema": `{"refresh_interval":3600}`}}, pagesTable)
	record := `{"event_id":"v1","page":"/x","ref":"r"}`
	for _, change := range []struct{ sql, status string }{
		{"ALTER TABLE pages ADD COLUMN ref String", "ok"}, {"alter table pages drop column ref", "refused"},
		{"-- add it again\nALTER TABLE pages ADD COLUMN ref String", "ok"}, {"/* and */ ALTER TABLE pages DROP COLUMN ref", "refused"},
	} {
		a := s.opsSQL(change.sql)
		require.Equal(t, http.StatusOK, a.status, a.body)
		a = s.ingest("pages", record)
		if change.status == "ok" {
			assert.Equal(t, http.StatusOK, a.status, "%s: %s", change.sql, a.body)
			s.eventually(func() string {
				return unless(s.ch.Value(t, "SELECT count() FROM pages WHERE ref = 'r'") != "0", "flushed")
			})
			continue
		}
		refused(t, a, http.StatusBadRequest, "record.unknown_column")
	}
	a := s.opsSQL("ALTER TABLE pages ADD COLUMN ref String; SELECT 1")
	assert.Equal(t, http.StatusBadRequest, a.status, "two statements: %s", a.body)
}

// A pipe is what its caller accepts; other renderings are not kept.
func TestPipeFormats(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.adopt(pipesFile("n", `"sql":"SELECT number AS n FROM numbers(2)"`))
	a := s.pipe("n", "Accept", "text/csv")
	assert.Equal(t, "\"n\"\n0\n1\n", a.body)
	assert.Equal(t, "BYPASS", a.header.Get("X-Cache"))
	a = s.pipe("n", "Accept", "application/x-ndjson")
	assert.Equal(t, "{\"n\":0}\n{\"n\":1}\n", a.body)
	a = s.pipe("n", "Accept", "application/vnd.apache.parquet")
	assert.True(t, strings.HasPrefix(a.body, "PAR1"))
}
