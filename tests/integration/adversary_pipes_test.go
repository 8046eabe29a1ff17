package integration

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scopedPipes read the rows of the token's organisation, with a parameter of
// each type in the place where ClickHouse takes it.
func scopedPipes() string {
	one := func(kind, where string) string {
		return `"sql":` + quoted("SELECT event_id, page, {{p}} AS echo FROM vault WHERE org = {{ jwt.org }} AND "+where+" ORDER BY event_id LIMIT 3") +
			`,"parameters":[{"name":"p","type":` + quoted(kind) + `}]`
	}
	return strings.ReplaceAll(pipesFile(
		"string", one("string", "(page = {{p}} OR page LIKE {{p}})"), "number", one("number", "n = {{p}}"), "boolean", one("boolean", "(n > 25) = {{p}}"),
		"date", one("date", "day = {{p}}"), "datetime", one("datetime", "ts >= {{p}}"), "uuid", one("uuid", "toString({{p}}) = page"),
		"strings", one("array(string)", "page IN {{p}}"), "numbers", one("array(number)", "n IN {{p}}"),
		"identifier", `"sql":"SELECT {{p:page}} AS echo, count() AS c FROM vault WHERE org = {{ jwt.org }} GROUP BY 1 ORDER BY 1 LIMIT 3","parameters":[{"name":"p","type":"identifier(page|lc)"}]`,
		"limit", `"sql":"SELECT event_id FROM vault WHERE org = {{ jwt.org }} ORDER BY event_id LIMIT {{p:2}}","parameters":[{"name":"p","type":"number"}]`,
	), `"public"`, `"analyst"`)
}

// evilValues are texts that would be something else where they were spliced in.
var evilValues = []string{
	"'", "''", `\'`, `\\'`, `"`, "`", "' OR 1=1 --", `\' OR 1=1 --`, "') OR (1=1", "x' UNION ALL SELECT event_id, secret, org FROM vault --", "';DROP TABLE vault;--",
	"1 OR 1=1", "1; SELECT secret FROM vault", "1 UNION ALL SELECT secret", "0x10", "1e1000", "-", "+1", " 1", "1 ", "1_000", "nan", "inf", "NULL", `\N`, "null", "true", "TRUE OR 1",
	"{p:Identifier}", "{wh_claim_0:String}", "{p_p:String}", "{{p}}", "{{ jwt.org }}", "{{secret}}", "{secret:Identifier}", "$1", "?", "%", "_", "%27 OR 1=1 --", "SECRET%", "HIDDEN%",
	"/* */", "--", "#", "\x00", "a\x00' OR 1=1 --", "\n", "\r\n", "\t", `\0`, `\x27`, `'`, "’ OR 1=1", "‘", "“", "ʼ", "\u2028", "🂡", "\ufeff", "secret", "vault.secret", "page, secret",
	"page|secret", "page`, `secret", "*", "any(secret)", "(SELECT any(secret) FROM vault)", "2026-01-01' OR '1", "2026-01-01T00:00:00Z' OR 1 --", "toDate('2026-01-01')", "now()",
	"00000000-0000-0000-0000-000000000000' OR 1 --", "['1'] OR 1", "[]", "['1','2']", "1,2) OR (1=1", "FORMAT CSV", "1 SETTINGS readonly=0", "1 INTO OUTFILE '/tmp/x'", "$$", "$a$ OR $a$",
}

// A parameter is a value of its type, or refused; the rows stay the caller's.
func TestAdversaryPipeParameters(t *testing.T) {
	t.Parallel()
	s, caller := vault(t)
	s.adopt(scopedPipes())
	check := func(a answer, question string) {
		t.Helper()
		noLeak(t, a, question)
		if a.status != http.StatusOK {
			require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", question, a.body)
			assert.Contains(t, []string{"pipe.parameter_invalid", "query_string.invalid", "clickhouse.rejected"}, decode[problem](t, a).Code, question)
			return
		}
		assert.LessOrEqual(t, strings.Count(a.body, `"event_id":`), 3)
	}
	kinds := []string{"string", "number", "boolean", "date", "datetime", "uuid", "strings", "numbers", "identifier", "limit"}
	for _, kind := range kinds {
		for _, value := range evilValues {
			check(s.pipe(kind+"?p="+url.QueryEscape(value), caller...), kind+" "+value)
			check(s.pipe(kind+"?p=1&p="+url.QueryEscape(value), caller...), kind+" "+value)
			for _, body := range []string{`{"p":` + quoted(value) + `}`, `{"p":[` + quoted(value) + `]}`, `{"p":{"p":` + quoted(value) + `}}`, `{` + quoted(value) + `:1}`} {
				check(s.do(http.MethodPost, "/v1/pipes/"+kind+"?p=1", body, caller...), kind+" "+body)
			}
		}
		for _, body := range []string{`{"p":null}`, `{"p":1e999}`, `{"p":-0}`, `{"p":123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890}`, `{"p":[[1]]}`, `{"p":[null]}`, `{"p":1,"p":2}`, `[]`, `"p"`, `{"p":`} {
			check(s.do(http.MethodPost, "/v1/pipes/"+kind, body, caller...), kind+" "+body)
		}
	}
	// A text comes back as it was sent, whatever is in it, and the body wins.
	for _, value := range evilValues {
		a := s.do(http.MethodPost, "/v1/pipes/string?p=3", `{"p":`+quoted(value)+`}`, caller...)
		require.Equal(t, http.StatusOK, a.status, "%q: %s", value, a.body)
		for _, row := range decode[[]map[string]string](t, a) {
			assert.Equal(t, value, row["echo"])
			assert.Contains(t, []string{"%", "_"}, value, "only patterns meet a row: %v", row)
		}
	}
	a := s.do(http.MethodPost, "/v1/pipes/string?p=3", `{"p":"5"}`, caller...)
	assert.Contains(t, a.body, `"page":"5"`)
	assert.NotContains(t, a.body, `"page":"3"`)
	assert.Equal(t, 400, s.ch.Count(t, "vault"))
}

// What is not a parameter of the pipe is not one of ClickHouse's either.
func TestAdversaryPipeNamesAndForeignParameters(t *testing.T) {
	t.Parallel()
	s, caller := vault(t)
	s.adopt(scopedPipes())
	for _, name := range []string{
		"jwt.org", "org", "tenant", "wh_tenant", "wh_claim_0", "param_wh_claim_0", "param_p", "p_p", "query", "database", "user", "password", "default_format", "readonly", "session_id",
		"max_rows_to_read", "settings", "additional_table_filters", "P", "p ", "p[]", "p.0", "sql", "token", "X-Tenant-ID",
	} {
		a := s.pipe("string?p=3&"+url.QueryEscape(name)+"=cedar", caller...)
		assert.Equal(t, http.StatusBadRequest, a.status, "%s: %s", name, a.body)
		noLeak(t, a, name)
		a = s.do(http.MethodPost, "/v1/pipes/string", `{"p":"3",`+quoted(name)+`:"cedar"}`, caller...)
		assert.Equal(t, http.StatusBadRequest, a.status, "%s: %s", name, a.body)
	}
	for _, name := range []string{
		"String", "STRING", "string ", " string", "string/", "string/..", "./string", "../ops/query", "..", ".", "string%00", "string\x00", "string;", "string'--", "`string`", "ѕtring", "*", "{name}", "%2e%2e%2fops%2fpipes",
		strings.Repeat("s", 4000),
	} {
		a := s.pipe(url.PathEscape(name)+"?p=3", caller...)
		assert.Contains(t, []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest}, a.status, "%s: %s", name, a.body)
		noLeak(t, a, name)
	}
	for _, path := range []string{"/v1/ops/pipes", "/v1/ops/pipes/string", "/v1/ops/schema", "/v1/ops/tenants", "/v1/ops/dlq/stats", "/v1/ops/dlq/rows?table=vault"} {
		for _, who := range [][]string{caller, nil, {"X-Operator-Key", ""}, {"X-Operator-Key", operatorKey[:10]}, {"Authorization", "Operator"}, {"X-Operator-Key", operatorKey + "\x01"[:0] + "0"}} {
			a := s.do(http.MethodGet, path, "", who...)
			assert.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, a.status, path)
			noLeak(t, a, path)
			assert.NotContains(t, a.body, "SELECT", "no statement of a pipe")
		}
	}
}

// A claim scopes a pipe by what it is; one that says nothing scopes nothing,
// and the call is refused.
func TestAdversaryPipeClaims(t *testing.T) {
	t.Parallel()
	s, _ := vault(t)
	s.adopt(strings.ReplaceAll(pipesFile(
		"mine", `"sql":"SELECT event_id, org FROM vault WHERE org = {{ jwt.org }} ORDER BY event_id LIMIT 3"`,
		"ours", `"sql":"SELECT event_id, org FROM vault WHERE org IN {{ jwt.org }} ORDER BY event_id LIMIT 3"`,
		"others", `"sql":"SELECT event_id, org FROM vault WHERE org NOT IN {{ jwt.org }} AND org = 'birch' ORDER BY event_id LIMIT 3"`,
	), `"public"`, `"analyst"`))
	for _, claim := range hollowClaims() {
		for _, pipe := range []string{"mine", "ours", "others"} {
			a := s.pipe(pipe, of(t, "analyst", jwt.MapClaims{"org": claim})...)
			refused(t, a, http.StatusForbidden, "pipe.claim_missing")
			noLeak(t, a, "")
		}
	}
	claims := []any{true, json.Number("1"), json.Number("1e300"), json.Number("123456789012345678901234567890"), []any{"cedar' OR 1=1 --"}, []any{json.Number("1")}}
	for _, value := range evilValues {
		claims = append(claims, value)
	}
	for _, claim := range claims {
		for _, pipe := range []string{"mine", "ours"} {
			a := s.pipe(pipe, of(t, "analyst", jwt.MapClaims{"org": claim})...)
			noLeak(t, a, "")
			if a.status == http.StatusOK {
				assert.Equal(t, `[]`, compact(t, []byte(a.body)), "%v", claim)
			} else {
				assert.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden}, a.status, "%v: %s", claim, a.body)
			}
		}
	}
}

// hollowClaims say nothing about who bears them.
func hollowClaims() []any {
	return []any{nil, "", []any{}, []any{""}, []any{"birch", ""}, map[string]any{}, map[string]any{"_neq": ""}, []any{map[string]any{}}, []any{[]any{"birch"}}, []any{nil}, []any{"birch", json.Number("1")}}
}
