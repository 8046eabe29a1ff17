package main

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const secretOfTests = "a secret of tests, long enough 01"

// claimsOf are a token's, without what differs by the time.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(strings.TrimSpace(token), ".")
	require.Len(t, parts, 3, token)
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(text, &claims))
	issued, ends := claims["iat"].(float64), claims["exp"].(float64)
	claims["lasts"] = ends - issued
	delete(claims, "iat")
	delete(claims, "exp")
	return claims
}

func TestTokenHasTheClaimsThatTheSettingsAskFor(t *testing.T) {
	env := []string{"WH_AUTH_JWT_SECRET=" + secretOfTests}
	out, talk, code := command(t, env, "token", "--role", "viewer", "--claim", "org=a=b", "--claim", "app.teams:=[1,\"x\"]", "--ttl", "90m")
	require.Zero(t, code, talk)
	assert.Equal(t, map[string]any{"role": "viewer", "org": "a=b", "app": map[string]any{"teams": []any{1.0, "x"}}, "lasts": 5400.0}, claimsOf(t, out))
	assert.Empty(t, talk)

	dir := settingsOf(t, map[string]string{
		"config.json": `{"auth": {"role_claim": "app.role", "subject_claim": "user.id", "audience": "wh", "issuer": "me", "tenant_claim": "tenant"}}`,
	})
	out, talk, code = command(t, append(env, "WH_SETTINGS_DIR="+dir), "token", "--role", "viewer", "--sub", "ann")
	require.Zero(t, code, talk)
	assert.Equal(t, map[string]any{
		"app": map[string]any{"role": "viewer"}, "user": map[string]any{"id": "ann"}, "aud": "wh", "iss": "me", "tenant": "0", "lasts": 3600.0,
	}, claimsOf(t, out))
}

func TestTokensOfTenantsHaveTheirSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"acme": "the secret of acme, long enough 01"}`), 0o600))
	env := []string{"WH_AUTH_JWT_SECRET=" + secretOfTests, "WH_AUTH_JWT_SECRETS_FILE=" + file}
	signatures := map[string]bool{}
	for _, id := range []string{"acme", "birch"} {
		out, talk, code := command(t, env, "token", "--role", "viewer", "--tenant", id)
		require.Zero(t, code, talk)
		signatures[strings.Split(out, ".")[2]] = true
	}
	assert.Len(t, signatures, 2)
}

func TestTokensThatCannotBeMade(t *testing.T) {
	keys := settingsOf(t, map[string]string{"config.json": `{"auth": {"jwks_url": "https://id.example.com/keys"}}`})
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no secret":        {nil, exitUsage, "WH_AUTH_JWT_SECRET"},
		"no claim":         {[]string{"--claim", "org"}, exitUsage, "path=text"},
		"no JSON":          {[]string{"--claim", "org:=a"}, exitUsage, "no JSON"},
		"no path":          {[]string{"--claim", "a..b=x"}, exitUsage, "names joined by dots"},
		"into a text":      {[]string{"--claim", "a=x", "--claim", "a.b=y"}, exitUsage, "no object"},
		"no time":          {[]string{"--ttl", "0s"}, exitUsage, "--ttl"},
		"no tenant":        {[]string{"--tenant", "a b"}, exitUsage, "--tenant"},
		"an unknown one":   {[]string{"--tenant", "birch", "--dir", keys}, exitFailure, "name one with --tenant"},
		"keys of a server": {[]string{"--dir", keys}, exitFailure, "https://id.example.com/keys"},
	} {
		t.Run(name, func(t *testing.T) {
			env := []string{"WH_AUTH_JWT_SECRET=" + secretOfTests}
			if name == "no secret" {
				env = nil
			}
			_, talk, code := command(t, env, append([]string{"token", "--role", "viewer"}, c.args...)...)
			assert.Equal(t, c.code, code)
			assert.Contains(t, talk, c.says)
		})
	}
}
