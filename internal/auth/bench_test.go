package auth_test

import (
	"context"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// BenchmarkIdentify is what a request pays for its token: seen before, as most
// are, and new.
func BenchmarkIdentify(b *testing.B) {
	private := rsaKey(b)
	server := newKeyServer(b, setOf(b, jwkOf(b, "a", private)))
	byKeys := &settings.Snapshot{Config: new(settings.DefaultConfig())}
	byKeys.Config.Auth.JWKSURL = server.URL
	bySecret := &settings.Snapshot{Config: new(settings.DefaultConfig())}
	a := authenticator(auth.Options{Fetching: quick()})
	a.Reconcile(map[tenant.ID]*settings.Snapshot{"keys": byKeys, "secret": bySecret})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() { _ = a.Run(ctx) }()

	claims := jwt.MapClaims{
		"role": "viewer", "sub": "user-1", "exp": now.Add(time.Hour).Unix(),
		"app_metadata": map[string]any{"tenant_id": "birch", "plan": "pro"},
	}
	for name, kind := range map[string]struct {
		snap  *settings.Snapshot
		token string
	}{
		"RS256": {byKeys, signWith(b, jwt.SigningMethodRS256, private, "a", claims)},
		"HS256": {bySecret, signWith(b, jwt.SigningMethodHS256, []byte(secret), "", claims)},
	} {
		// Settings that differ make a token new to us: it is verified anew.
		other := *kind.snap
		other.Config.Auth.RoleClaim = "sub"
		r := request("Authorization", "Bearer "+kind.token)
		run := func(b *testing.B, snaps ...*settings.Snapshot) {
			eventually(b, "the keys", func() bool {
				_, err := a.Identify(r, kind.snap, "")
				return err == nil
			})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if id, err := a.Identify(r, snaps[i%len(snaps)], ""); err != nil || id.TokenErr != nil {
					b.Fatal(err, id.TokenErr)
				}
			}
		}
		b.Run(name+"/seen", func(b *testing.B) { run(b, kind.snap) })
		b.Run(name+"/new", func(b *testing.B) { run(b, kind.snap, &other) })
	}
}
