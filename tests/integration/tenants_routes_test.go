package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTenantIsResolvedBeforeTheToken(t *testing.T) {
	t.Parallel()
	a, b := own(t), own(t)
	s := nested(t, options{}, map[string]folder{"acme": a, "Acme_2-x": b, "broken": {broken: true}})
	routes := []struct{ method, path string }{
		{http.MethodPost, "/v1/ingest?table=pages"}, {http.MethodPost, "/v1/query?table=pages"}, {http.MethodGet, "/v1/pipes/none"},
		{http.MethodGet, "/v1/stream?table=pages"}, {http.MethodGet, "/v1/health"},
	}
	credentials := [][]string{nil, {"Authorization", "Bearer nonsense"}, as(t, "admin"), {"X-Operator-Key", operatorKey}}
	for _, route := range routes {
		for _, credential := range credentials {
			ask := func(headers ...string) answer {
				return s.do(route.method, route.path, "{}", append(headers, credential...)...)
			}
			for _, id := range []string{"..", "a/b", ".", "a b", "ä", "аcme", strings.Repeat("x", 65), "acme,acme", "a\tb", "%61cme"} {
				got := ask("X-Tenant-ID", id)
				refused(t, got, http.StatusBadRequest, "tenant.invalid")
			}
			refused(t, ask("X-Tenant-ID", "acme", "X-Tenant-ID", "acme"), http.StatusBadRequest, "tenant.invalid")
			for _, id := range []string{"nobody", "ACME", "acme_2-x", strings.Repeat("x", 64)} {
				p := refused(t, ask("X-Tenant-ID", id), http.StatusNotFound, "tenant.unknown")
				assert.Equal(t, "unknown tenant: "+id, p.Error)
			}
			for _, headers := range [][]string{nil, {"X-Tenant-ID", ""}} {
				p := refused(t, ask(headers...), http.StatusNotFound, "tenant.unknown")
				assert.Equal(t, "unknown tenant: 0", p.Error, "no header is tenant 0, which has no folder")
			}
			got := ask("X-Tenant-ID", "broken")
			refused(t, got, http.StatusServiceUnavailable, "tenant.rejected")
			assert.NotEmpty(t, got.header.Get("Retry-After"))
			assert.NotContains(t, got.body, "secret-word")
			assert.NotContains(t, got.body, "json")
		}
	}
	for _, id := range []string{"acme", "Acme_2-x"} {
		got := s.query("pages", `{"select_all":true}`, from(id)...)
		require.Equal(t, http.StatusOK, got.status, got.body)
		assert.Contains(t, got.header.Values("Vary"), "X-Tenant-Id")
		assert.Contains(t, s.do(http.MethodPost, "/v1/query?table=pages", "nonsense", from(id)...).header.Values("Vary"), "X-Tenant-Id")
		assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/v1/health", "", from(id)...).status)
	}
	// Routes that belong to no tenant do not read the header.
	for _, path := range []string{"/livez", "/healthz", "/readyz", "/version", "/metrics", "/openapi.json"} {
		for _, id := range []string{"..", "nobody", "broken"} {
			assert.Equal(t, http.StatusOK, s.do(http.MethodGet, path, "", "X-Tenant-ID", id).status, path)
		}
	}
	assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/v1/ops/tenants", "", "X-Tenant-ID", "..", "X-Operator-Key", operatorKey).status)
	// What one tenant wrote is its own.
	s.accept("pages", lines("a", 2), from("acme")...)
	s.accept("pages", lines("b", 3), from("Acme_2-x")...)
	s.holds(a, 2)
	s.holds(b, 3)
	assert.Equal(t, "0", a.ch.Value(t, "SELECT count() FROM pages WHERE event_id LIKE 'b%'"))
}

func TestCORSIsTheTenantsOwn(t *testing.T) {
	t.Parallel()
	allow := func(f folder, origin string) folder {
		f.config = map[string]string{"cors": `{"allowed_origins":["` + origin + `"]}`}
		return f
	}
	f := own(t)
	s := nested(t, options{}, map[string]folder{
		"acme": allow(f, "https://acme.test"), "0": allow(f, "https://zero.test"), "broken": {broken: true},
	})
	allowed := func(method, path, origin string, headers ...string) string {
		return s.do(method, path, "{}", append(headers, "Origin", origin)...).header.Get("Access-Control-Allow-Origin")
	}
	preflight := func(path, origin string, headers ...string) string {
		return allowed(http.MethodOptions, path, origin, append(headers, "Access-Control-Request-Method", "POST")...)
	}
	const query, zero, acme = "/v1/query?table=pages", "https://zero.test", "https://acme.test"
	assert.Equal(t, acme, allowed(http.MethodPost, query, acme, from("acme")...))
	assert.Empty(t, allowed(http.MethodPost, query, zero, from("acme")...))
	assert.Equal(t, zero, allowed(http.MethodPost, query, zero))
	assert.Empty(t, allowed(http.MethodPost, query, acme))
	assert.Equal(t, acme, preflight(query, acme, from("acme")...))
	assert.Equal(t, zero, preflight(query, zero))
	for _, id := range []string{"broken", "nobody", ".."} {
		assert.Equal(t, zero, allowed(http.MethodPost, query, zero, from(id)...), id)
		assert.Empty(t, allowed(http.MethodPost, query, acme, from(id)...), id)
		assert.Equal(t, zero, preflight(query, zero, from(id)...), id)
	}
	for _, path := range []string{"/livez", "/openapi.json", "/v1/ops/tenants", "/v1/nowhere", "/nowhere"} {
		assert.Equal(t, zero, allowed(http.MethodGet, path, zero, from("acme")...), path)
	}
	for _, path := range []string{"/livez", "/v1/ops/tenants"} {
		assert.Equal(t, zero, preflight(path, zero, from("acme")...), path)
		assert.Empty(t, preflight(path, acme, from("acme")...), path)
	}
	s.removeFolder("0")
	require.Equal(t, http.StatusUnprocessableEntity, s.reload().status, "the broken one is still there")
	assert.Empty(t, allowed(http.MethodGet, "/livez", zero))
	assert.Empty(t, allowed(http.MethodPost, query, zero, from("broken")...))
	assert.Empty(t, preflight(query, zero))
	assert.Equal(t, acme, allowed(http.MethodPost, query, acme, from("acme")...))
	for _, header := range []string{"Access-Control-Allow-Credentials"} {
		assert.Empty(t, s.do(http.MethodPost, query, "{}", from("acme", "Origin", acme)...).header.Get(header))
	}
}

func TestOpsOverManyTenantsNeedTheOperatorKey(t *testing.T) {
	t.Parallel()
	a, zero := own(t), own(t)
	s := nested(t, options{}, map[string]folder{"acme": a, "0": zero, "broken": {broken: true}})
	admin := token(t, jwt.MapClaims{"role": "admin"})
	routes := []struct{ method, path string }{
		{http.MethodPost, "/v1/ops/query"}, {http.MethodGet, "/v1/ops/schema"}, {http.MethodPost, "/v1/ops/schema/refresh"},
		{http.MethodGet, "/v1/ops/pipes"}, {http.MethodGet, "/v1/ops/tenants"}, {http.MethodGet, "/v1/ops/dlq/stats"},
		{http.MethodGet, "/v1/ops/dlq/rows?table=pages"}, {http.MethodPost, "/v1/ops/settings/reload"},
	}
	for _, route := range routes {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer " + admin}, {"X-Operator-Key", operatorKey + "x"}, {"Authorization", "Bearer junk"}} {
			refused(t, s.do(route.method, route.path, `{"sql":"SELECT 1"}`, headers...), http.StatusForbidden, "auth.forbidden")
		}
		if strings.Contains(route.path, "tenants") {
			continue
		}
		separator := "?"
		if strings.Contains(route.path, "?") {
			separator = "&"
		}
		for _, value := range []string{"tenant=", "tenant=..", "tenant=a%2Fb", "tenant=acme&tenant=acme", "tenant=acme&tenant=0", "tenant=" + strings.Repeat("x", 65)} {
			got := s.ops(route.method, route.path+separator+value, `{"sql":"SELECT 1"}`)
			assert.Equal(t, http.StatusBadRequest, got.status, "%s %s: %s", route.path, value, got.body)
		}
		got := s.ops(route.method, route.path+separator+"tenant=nobody", `{"sql":"SELECT 1"}`)
		assert.Equal(t, http.StatusNotFound, got.status, "%s: %s", route.path, got.body)
	}
	database := func(query string) string {
		got := s.ops(http.MethodPost, "/v1/ops/query"+query, `{"sql":"SELECT currentDatabase() AS d"}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		return got.body
	}
	assert.Contains(t, database("?tenant=acme"), a.ch.Database)
	assert.Contains(t, database("?tenant=0"), zero.ch.Database)
	assert.Contains(t, database(""), zero.ch.Database, "without a name it is tenant 0")
	refused(t, s.ops(http.MethodPost, "/v1/ops/query?tenant=broken", `{"sql":"SELECT 1"}`), http.StatusServiceUnavailable, "tenant.rejected")
	refused(t, s.ops(http.MethodGet, "/v1/ops/dlq/stats?tenant=broken", ""), http.StatusNotFound, "dlq.none")
	assert.Zero(t, s.letterCount("acme"), "a served tenant that never parked a row")
}

func TestOpsWithoutATenantSayWhatToAdd(t *testing.T) {
	t.Parallel()
	s := nested(t, options{}, map[string]folder{"acme": own(t)})
	for _, route := range []string{"/v1/ops/schema", "/v1/ops/pipes", "/v1/ops/dlq/stats", "/v1/ops/dlq/rows?table=pages"} {
		a := s.ops(http.MethodGet, route, "")
		refused(t, a, http.StatusNotFound, "tenant.unknown")
		assert.Contains(t, a.body, "?tenant=", route)
	}
	a := s.ops(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`)
	refused(t, a, http.StatusNotFound, "tenant.unknown")
	assert.Contains(t, a.body, "?tenant=")
}

func TestBootWithoutAnOperatorKeyWarns(t *testing.T) {
	t.Parallel()
	const none = "WH_AUTH_OPERATOR_KEY="
	s := nested(t, options{env: []string{none}}, map[string]folder{"acme": own(t)})
	assert.Len(t, s.logs.lines(`"level":"WARN"`, "no operator key"), 1)
	refused(t, s.do(http.MethodGet, "/v1/ops/tenants", "", "X-Operator-Key", ""), http.StatusForbidden, "auth.forbidden")
	flat := start(t, options{env: []string{none}}, pagesTable)
	assert.Empty(t, flat.logs.lines("no operator key"))
}
