package auth_test

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestHowLongATokenIsGood(t *testing.T) {
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, c := range map[string]struct {
		require bool
		age     time.Duration
		claims  jwt.MapClaims
		err     error
		expires time.Duration // 0 is never
	}{
		"for ever, when it may":    {false, 0, jwt.MapClaims{}, nil, 0},
		"no exp":                   {true, 0, jwt.MapClaims{"iat": at(0)}, auth.ErrTokenInvalid, 0},
		"exp null":                 {true, 0, jwt.MapClaims{"exp": nil}, auth.ErrTokenInvalid, 0},
		"an exp":                   {true, 0, jwt.MapClaims{"exp": at(time.Hour)}, nil, time.Hour + 30*time.Second},
		"young":                    {false, time.Hour, jwt.MapClaims{"iat": at(-time.Minute)}, nil, 59*time.Minute + 30*time.Second},
		"young, with an early exp": {true, time.Hour, jwt.MapClaims{"iat": at(0), "exp": at(time.Minute)}, nil, time.Minute + 30*time.Second},
		"young, with a late exp":   {true, time.Hour, jwt.MapClaims{"iat": at(0), "exp": at(99 * time.Hour)}, nil, time.Hour + 30*time.Second},
		"old":                      {false, time.Hour, jwt.MapClaims{"iat": at(-2 * time.Hour)}, auth.ErrTokenExpired, 0},
		"old, with a late exp":     {true, time.Hour, jwt.MapClaims{"iat": at(-2 * time.Hour), "exp": at(time.Hour)}, auth.ErrTokenExpired, 0},
		"of no known age":          {false, time.Hour, jwt.MapClaims{"exp": at(time.Hour)}, auth.ErrTokenInvalid, 0},
		"made in the future":       {false, time.Hour, jwt.MapClaims{"iat": at(time.Hour)}, auth.ErrTokenInvalid, 0},
		"iat a text":               {false, time.Hour, jwt.MapClaims{"iat": "yesterday"}, auth.ErrTokenInvalid, 0},
	} {
		snap := snapshot(t)
		snap.Config.Auth.RequireExp, snap.Config.Auth.MaxTokenAge = c.require, c.age
		c.claims["role"] = "viewer"
		id := identify(t, snap, request("Authorization", "Bearer "+sign(t, c.claims)), "")
		if c.err != nil {
			assert.ErrorIs(t, id.TokenErr, c.err, name)
			assert.Empty(t, id.Role, name)
			continue
		}
		require.NoError(t, id.TokenErr, name)
		want := time.Time{}
		if c.expires != 0 {
			want = time.Unix(at(c.expires), 0)
		}
		assert.True(t, want.Equal(id.Expires), "%s: %v, want %v", name, id.Expires, want)
	}
}

func TestATokenOfAnotherTenantIsNone(t *testing.T) {
	snap := snapshot(t)
	snap.Tenant, snap.Config.Auth.TenantClaim = "acme", "app.tenant"
	for name, c := range map[string]struct {
		app  any
		good bool
	}{
		"its id": {map[string]any{"tenant": "acme"}, true}, "in a list": {map[string]any{"tenant": []string{"birch", "acme"}}, true},
		"another": {map[string]any{"tenant": "birch"}, false}, "others": {map[string]any{"tenant": []string{"birch"}}, false}, "none": {nil, false},
		"other case": {map[string]any{"tenant": "Acme"}, false}, "a star": {map[string]any{"tenant": "*"}, false}, "nested": {map[string]any{"tenant": []any{[]string{"acme"}}}, false},
		"a map": {map[string]any{"tenant": map[string]any{"acme": true}}, false}, "a part": {map[string]any{"tenant": "acme,birch"}, false},
	} {
		id := identify(t, snap, request("Authorization", "Bearer "+sign(t, jwt.MapClaims{"role": "admin", "app": c.app, "app.tenant": "acme"})), "")
		assert.Equal(t, c.good, id.TokenErr == nil, name)
		assert.Equal(t, c.good, id.Role == "admin", name)
	}
}

func TestEachTenantsTokensByItsOwnSecret(t *testing.T) {
	secrets := map[tenant.ID]string{"acme": "acmes-own-secret-0123456789abcdef", "birch": "birchs-own-secret-0123456789abcdef", "cedar": ""}
	a := auth.New(auth.Options{Secret: func(id tenant.ID) string { return secrets[id] }, Now: func() time.Time { return now }})
	signWith := func(secret string) string {
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"role": "viewer", "sub": 7}).SignedString([]byte(secret))
		require.NoError(t, err)
		return text
	}
	ask := func(id tenant.ID, token string) auth.Identity {
		snap := snapshot(t)
		snap.Tenant = id
		identity, err := a.Identify(request("Authorization", "Bearer "+token), snap, "")
		require.NoError(t, err)
		return identity
	}
	acme := signWith(secrets["acme"])
	for range 2 { // the second time it is remembered
		assert.Equal(t, "viewer", ask("acme", acme).Role)
		assert.Equal(t, "7", ask("acme", acme).Subject)
		assert.ErrorIs(t, ask("birch", acme).TokenErr, auth.ErrTokenInvalid)
		assert.ErrorIs(t, ask("cedar", acme).TokenErr, auth.ErrTokenInvalid)
	}
	secrets["acme"] = "another-secret-0123456789abcdefghij"
	assert.ErrorIs(t, ask("acme", acme).TokenErr, auth.ErrTokenInvalid, "a secret that is gone")
	assert.Equal(t, "viewer", ask("acme", signWith(secrets["acme"])).Role)
}
