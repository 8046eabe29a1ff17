package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const viewersOnly = `{"tables":{"pages":{"viewer":{"select":{}}}}}`

// A token says whose it is, or is verified by a key that no other tenant has.
func TestATokenOfOneTenantIsNoneAtAnother(t *testing.T) {
	t.Parallel()
	const document = `{"aggregations":[{"fn":"count"}]}`
	const secret = "the-secret-of-cedar-alone-0123456789"
	file := filepath.Join(t.TempDir(), "secrets.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"cedar":`+quoted(secret)+`}`), 0o600))
	tenantOf := func(auth string) folder {
		f := own(t)
		f.policies, f.config = viewersOnly, map[string]string{"auth": auth}
		return f
	}
	s := nested(t, options{env: []string{"WH_AUTH_JWT_SECRETS_FILE=" + file}}, map[string]folder{
		"acme": tenantOf(`{"tenant_claim":["https://x/y.z"]}`), "birch": tenantOf(`{"tenant_claim":"app.tenant"}`), "cedar": tenantOf(`{}`),
	})
	ask := func(tenant, token string) int {
		return s.query("pages", document, from(tenant, "Authorization", "Bearer "+token)...).status
	}
	hs := jwt.SigningMethodHS256
	tokens := map[string]string{
		"acme":  token(t, jwt.MapClaims{"role": "viewer", "https://x/y.z": "acme"}),
		"birch": token(t, jwt.MapClaims{"role": "viewer", "app": map[string]any{"tenant": []string{"oak", "birch"}}}),
		"cedar": signed(t, hs, []byte(secret), jwt.MapClaims{"role": "viewer", "https://x/y.z": "acme", "app": map[string]any{"tenant": "birch"}}),
		"none":  token(t, jwt.MapClaims{"role": "viewer"}),
	}
	for range 2 {
		for whose, text := range tokens {
			for _, tenant := range []string{"acme", "birch", "cedar"} {
				want := http.StatusUnauthorized
				if whose == tenant {
					want = http.StatusOK
				}
				assert.Equal(t, want, ask(tenant, text), "the token of %s at %s", whose, tenant)
			}
		}
	}
	// The secrets are read again with a reload.
	require.NoError(t, os.WriteFile(file, []byte(`{"cedar":"another-secret-of-cedar-0123456789"}`), 0o600))
	require.Equal(t, http.StatusOK, s.reload().status)
	assert.Equal(t, http.StatusUnauthorized, ask("cedar", tokens["cedar"]))
	assert.Equal(t, http.StatusOK, ask("cedar", signed(t, hs, []byte("another-secret-of-cedar-0123456789"), jwt.MapClaims{"role": "viewer"})))
	// Without its own it would take the others'.
	require.NoError(t, os.WriteFile(file, []byte(`{}`), 0o600))
	a := s.reload()
	assert.Equal(t, http.StatusUnprocessableEntity, a.status)
	assert.Contains(t, a.body, "would count for tenant cedar")
	refused(t, s.query("pages", document, from("cedar", "Authorization", "Bearer "+tokens["none"])...), http.StatusServiceUnavailable, "tenant.rejected")
	assert.Equal(t, http.StatusOK, ask("acme", tokens["acme"]))
}

// A token that is good for ever, or older than the tenant allows, is none.
func TestATokenEndsWhenTheTenantSaysSo(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: viewersOnly, config: map[string]string{"auth": `{"require_exp":true,"max_token_age":"1h"}`}}, pagesTable)
	ask := func(claims jwt.MapClaims) answer {
		claims["role"] = "viewer"
		return s.query("pages", `{"aggregations":[{"fn":"count"}]}`, "Authorization", "Bearer "+token(t, claims))
	}
	now, hour := time.Now().Unix(), int64(3600)
	assert.Equal(t, http.StatusOK, ask(jwt.MapClaims{"iat": now, "exp": now + hour}).status)
	refused(t, ask(jwt.MapClaims{"iat": now}), http.StatusUnauthorized, "auth.token_invalid")
	refused(t, ask(jwt.MapClaims{"exp": now + hour}), http.StatusUnauthorized, "auth.token_invalid")
	refused(t, ask(jwt.MapClaims{"iat": now - 2*hour, "exp": now + hour}), http.StatusUnauthorized, "auth.token_expired")
}
