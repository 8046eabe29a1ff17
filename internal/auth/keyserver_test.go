package auth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/processtest"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func rsaKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key
}

func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return key
}

func edKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return key
}

// jwkOf writes a key's public half as a member of a key set.
func jwkOf(t testing.TB, id string, private crypto.Signer) map[string]any {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	members := map[string]any{"use": "sig"}
	if id != "" {
		members["kid"] = id
	}
	switch key := private.Public().(type) {
	case *rsa.PublicKey:
		members["kty"], members["n"], members["e"] = "RSA", encode(key.N.Bytes()), encode(big.NewInt(int64(key.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		require.NoError(t, err)
		half := len(point) / 2
		members["kty"], members["crv"] = "EC", key.Curve.Params().Name
		members["x"], members["y"] = encode(point[1:half+1]), encode(point[half+1:])
	case ed25519.PublicKey:
		members["kty"], members["crv"], members["x"] = "OKP", "Ed25519", encode(key)
	}
	return members
}

func setOf(t testing.TB, members ...map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"keys": members})
	require.NoError(t, err)
	return string(text)
}

func signWith(t testing.TB, method jwt.SigningMethod, key any, id string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if id != "" {
		token.Header["kid"] = id
	}
	text, err := token.SignedString(key)
	require.NoError(t, err)
	return text
}

// keyServer is an HTTP server that hands out a key set, or does not.
type keyServer struct {
	*httptest.Server
	handler atomic.Pointer[http.HandlerFunc]
	fetches atomic.Int64
}

func newKeyServer(t testing.TB, set string) *keyServer {
	t.Helper()
	s := &keyServer{}
	s.answer(set)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.fetches.Add(1)
	(*s.handler.Load())(w, r)
}

func (s *keyServer) handle(h http.HandlerFunc) { s.handler.Store(&h) }

func (s *keyServer) answer(set string) {
	s.handle(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, set) })
}

// logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// quick are waits that a test can afford.
func quick() auth.Fetching {
	return auth.Fetching{
		Timeout: 5 * time.Second, Refresh: time.Hour, Refetch: time.Millisecond, Wait: 5 * time.Second,
		RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond,
	}
}

// rig is an Authenticator that runs.
type rig struct {
	*auth.Authenticator
	t       testing.TB
	snap    *settings.Snapshot
	log     *logBuffer
	metrics *prometheus.Registry
}

// start runs an Authenticator until the test ends. The tenant of its snapshot
// names the URL.
func start(t *testing.T, url string, fetching auth.Fetching) *rig {
	t.Helper()
	r := &rig{t: t, snap: snapshot(t), log: &logBuffer{}, metrics: prometheus.NewRegistry()}
	r.snap.Config.Auth.JWKSURL = url
	r.Authenticator = authenticator(auth.Options{
		Fetching: fetching, Logger: slog.New(slog.NewJSONHandler(r.log, nil)), Metrics: r.metrics,
	})
	r.Reconcile(map[tenant.ID]*settings.Snapshot{tenant.Default: r.snap})
	r.run()
	return r
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			assert.NoError(r.t, err)
		case <-time.After(time.Minute):
			r.t.Error("Run does not return")
		}
	})
}

func (r *rig) identify(token string) (auth.Identity, error) {
	return r.Identify(request("Authorization", "Bearer "+token), r.snap, "")
}

// role is the role that a token is worth now.
func (r *rig) role(token string) string {
	id, err := r.identify(token)
	if err != nil || id.TokenErr != nil {
		return ""
	}
	return id.Role
}

// eventually polls for what another goroutine does.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, 2*time.Millisecond, what)
}

// ready waits for the first keys.
func (r *rig) ready() *rig {
	r.t.Helper()
	eventually(r.t, "the first keys", func() bool {
		_, err := r.identify("x.y.z")
		return err == nil
	})
	return r
}

// freePort is an address where nothing listens.
func freePort(t testing.TB) string {
	t.Helper()
	port, err := processtest.FreePort()
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// listenAt starts the server at an address.
func (s *keyServer) listenAt(t testing.TB, address string) {
	t.Helper()
	// Another's connection may hold the port for a moment.
	var listener net.Listener
	eventually(t, "the address", func() (ok bool) {
		var err error
		listener, err = net.Listen("tcp", address)
		return err == nil
	})
	s.Server = httptest.NewUnstartedServer(s)
	require.NoError(t, s.Listener.Close())
	s.Listener = listener
	s.Start()
}
