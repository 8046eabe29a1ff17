package auth_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Whatever happens at once, a token counts only while its key is listed, and
// nothing is left behind.
func TestRequestsRotationsAndReloadsTogether(t *testing.T) {
	private, removed := edKey(t), edKey(t)
	with, without := setOf(t, jwkOf(t, "a", private), jwkOf(t, "b", removed)), setOf(t, jwkOf(t, "a", private))
	server := newKeyServer(t, with)
	timing := quick()
	timing.Refresh, timing.Wait = 2*time.Millisecond, 10*time.Millisecond
	r := start(t, server.URL, timing).ready()
	good := signWith(t, jwt.SigningMethodEdDSA, private, "a", viewerClaims)
	old := signWith(t, jwt.SigningMethodEdDSA, removed, "b", viewerClaims)
	forged := signWith(t, jwt.SigningMethodEdDSA, edKey(t), "a", viewerClaims)
	unknown := signWith(t, jwt.SigningMethodEdDSA, edKey(t), "z", viewerClaims)

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				for token, wanted := range map[string]bool{good: true, forged: false, unknown: false} {
					id, err := r.identify(token)
					if errors.Is(err, auth.ErrVerifierPending) {
						continue // between two URLs
					}
					assert.NoError(t, err)
					assert.Equal(t, wanted, id.TokenErr == nil)
				}
				_ = r.role(old)
			}
		})
	}
	callers.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			server.answer([]string{with, without}[i%2])
			if i%3 == 0 {
				r.Reconcile(nil)
			}
			r.Reconcile(map[tenant.ID]*settings.Snapshot{tenant.Default: r.snap})
		}
	})
	callers.Wait()
	server.answer(without)
	eventually(t, "the last keys", func() bool { return r.role(good) == "viewer" && r.role(old) == "" })
}

func TestAStopDoesNotWaitForASlowKeyServer(t *testing.T) {
	server := newKeyServer(t, "")
	server.handle(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	a := authenticator(auth.Options{Fetching: auth.Fetching{Timeout: time.Hour}})
	snap := snapshot(t)
	snap.Config.Auth.JWKSURL = server.URL
	a.Reconcile(map[tenant.ID]*settings.Snapshot{tenant.Default: snap})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	eventually(t, "the fetch", func() bool { return server.fetches.Load() == 1 })
	cancel()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "Run waits for the key server")
	}
}

func TestARequestDoesNotWaitLongForASlowKeyServer(t *testing.T) {
	private := edKey(t)
	server := newKeyServer(t, setOf(t, jwkOf(t, "a", private)))
	timing := quick()
	timing.Wait = 10 * time.Millisecond
	r := start(t, server.URL, timing).ready()
	server.handle(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	unknown := signWith(t, jwt.SigningMethodEdDSA, edKey(t), "z", viewerClaims)
	fetched := server.fetches.Load()
	eventually(t, "the fetch that hangs", func() bool {
		return r.role(unknown) == "" && server.fetches.Load() > fetched
	})
	for range 10 {
		assert.Empty(t, r.role(unknown), "the wait is bounded while a fetch hangs")
	}
	assert.Equal(t, "viewer", r.role(signWith(t, jwt.SigningMethodEdDSA, private, "a", viewerClaims)), "known keys do not wait at all")
}
