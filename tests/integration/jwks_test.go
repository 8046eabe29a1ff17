package integration

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// keyServer hands out a key set at an address that is known before it listens.
type keyServer struct {
	address string
	set     atomic.Pointer[string]
	server  *httptest.Server
}

func newKeyServer(t *testing.T) *keyServer {
	t.Helper()
	port, err := processtest.FreePort()
	require.NoError(t, err)
	return &keyServer{address: fmt.Sprint("127.0.0.1:", port)}
}

func (k *keyServer) config() map[string]string {
	return map[string]string{"auth": `{"jwks_url":"http://` + k.address + `/keys?secret=in-the-url"}`}
}

func (k *keyServer) up(t *testing.T) {
	t.Helper()
	// Another's connection may hold the port for a moment.
	var listener net.Listener
	require.Eventually(t, func() (free bool) {
		var err error
		listener, err = net.Listen("tcp", k.address)
		return err == nil
	}, time.Minute, 20*time.Millisecond, k.address)
	k.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, *k.set.Load())
	}))
	require.NoError(t, k.server.Listener.Close())
	k.server.Listener = listener
	k.server.Start()
	t.Cleanup(k.server.Close)
}

func (k *keyServer) answer(t *testing.T, keys map[string]crypto.Signer) {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	members := []map[string]string{}
	for id, private := range keys {
		switch key := private.Public().(type) {
		case *rsa.PublicKey:
			members = append(members, map[string]string{
				"kty": "RSA", "kid": id, "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
			})
		case ed25519.PublicKey:
			members = append(members, map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(key)})
		}
	}
	text, err := json.Marshal(map[string]any{"keys": members})
	require.NoError(t, err)
	set := string(text)
	k.set.Store(&set)
}

func signedBy(t *testing.T, method jwt.SigningMethod, key any, id string, claims jwt.MapClaims) string {
	t.Helper()
	made := jwt.NewWithClaims(method, claims)
	made.Header["kid"] = id
	text, err := made.SignedString(key)
	require.NoError(t, err)
	return text
}

func TestKeyServerComesLateRotatesAndLeaves(t *testing.T) {
	t.Parallel()
	a, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, b, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	keys := newKeyServer(t)
	s := start(t, options{policies: openPolicy, config: keys.config()}, pagesTable)
	byA := signedBy(t, jwt.SigningMethodRS256, a, "a", jwt.MapClaims{"role": "admin"})
	byB := signedBy(t, jwt.SigningMethodEdDSA, b, "b", jwt.MapClaims{"role": "admin"})
	ops := func(text string) answer {
		return s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, "Authorization", "Bearer "+text)
	}

	pending := s.ingest("pages", `{"event_id":"1","page":"/"}`, "Authorization", "Bearer "+byA)
	refused(t, pending, http.StatusServiceUnavailable, "auth.verifier_pending")
	assert.Equal(t, "30", pending.header.Get("Retry-After"))
	refused(t, ops(byA), http.StatusServiceUnavailable, "auth.verifier_pending")
	s.refusedStream("table=pages&token="+byA, "", http.StatusServiceUnavailable, "auth.verifier_pending")
	assert.Equal(t, http.StatusOK, s.ingest("pages", `{"event_id":"2","page":"/"}`).status, "without a token the anonymous rules")
	assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/v1/ops/tenants", "", "X-Operator-Key", operatorKey).status)

	keys.answer(t, map[string]crypto.Signer{"a": a})
	keys.up(t)
	within := func(what string, condition func() bool) {
		t.Helper()
		require.Eventually(t, condition, 90*time.Second, 50*time.Millisecond, what)
	}
	within("the keys", func() bool { return ops(byA).status == http.StatusOK })
	refused(t, ops(byB), http.StatusUnauthorized, "auth.token_invalid")
	refused(t, ops(token(t, jwt.MapClaims{"role": "admin"})), http.StatusUnauthorized, "auth.token_invalid")

	keys.answer(t, map[string]crypto.Signer{"a": a, "b": b})
	within("the new key", func() bool { return ops(byB).status == http.StatusOK })
	assert.Equal(t, http.StatusOK, ops(byA).status)

	keys.server.Close()
	refused(t, ops(signedBy(t, jwt.SigningMethodEdDSA, b, "c", jwt.MapClaims{"role": "admin"})), http.StatusUnauthorized, "auth.token_invalid")
	assert.Equal(t, http.StatusOK, ops(byA).status, "the last good keys count")
	assert.Contains(t, s.do(http.MethodGet, "/metrics", "").body, "wavehouse_auth_jwks_pending 0")

	s.stop()
	for _, text := range []string{byA[:20], byB[:20], byA[len(byA)-20:], "in-the-url"} {
		assert.NotContains(t, s.logs.String(), text)
	}
	assert.Len(t, s.logs.lines(`"level":"WARN"`, "auth.jwt_secret is not used"), 1)
	assert.True(t, strings.Contains(s.logs.String(), "connection refused"), "the outage is in the log")
}
