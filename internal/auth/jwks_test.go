package auth_test

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

var viewerClaims = jwt.MapClaims{"role": "viewer"}

func TestEveryAlgorithmOfAKeySet(t *testing.T) {
	keys := map[string]crypto.Signer{
		"RSA": rsaKey(t), "P-256": ecKey(t, elliptic.P256()), "P-384": ecKey(t, elliptic.P384()),
		"P-521": ecKey(t, elliptic.P521()), "Ed25519": edKey(t),
	}
	var members []map[string]any
	for id, key := range keys {
		members = append(members, jwkOf(t, id, key))
	}
	r := start(t, newKeyServer(t, setOf(t, members...)).URL, quick()).ready()
	for algorithm, id := range map[string]string{
		"RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
		"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519",
	} {
		method := jwt.GetSigningMethod(algorithm)
		for named, kid := range map[string]string{"with its key's name": id, "without": ""} {
			got, err := r.identify(signWith(t, method, keys[id], kid, jwt.MapClaims{"role": "viewer", "a": algorithm}))
			require.NoError(t, err)
			assert.NoError(t, got.TokenErr, "%s %s", algorithm, named)
			assert.Equal(t, "viewer", got.Role)
			assert.Equal(t, algorithm, got.Claims["a"])
		}
		got, err := r.identify(signWith(t, method, keys[id], "another", viewerClaims))
		require.NoError(t, err)
		assert.ErrorIs(t, got.TokenErr, auth.ErrTokenInvalid, "%s: a name that is not there is not looked past", algorithm)
	}
}

func TestAKeySetDoesNotTrustTheHeader(t *testing.T) {
	private, other := rsaKey(t), rsaKey(t)
	r := start(t, newKeyServer(t, setOf(t, jwkOf(t, "a", private))).URL, quick()).ready()
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	pkcs1 := x509.MarshalPKCS1PublicKey(&private.PublicKey)

	signed := func(method jwt.SigningMethod, key any, header map[string]any) string {
		token := jwt.NewWithClaims(method, jwt.MapClaims{"role": "admin"})
		token.Header["kid"] = "a"
		for name, value := range header {
			if token.Header[name] = value; value == nil {
				delete(token.Header, name)
			}
		}
		signed, err := token.SignedString(key)
		require.NoError(t, err)
		return signed
	}
	evil := newKeyServer(t, setOf(t, jwkOf(t, "a", other)))
	hs, rs := jwt.SigningMethodHS256, jwt.SigningMethodRS256
	good := signed(rs, private, nil)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"none":                          signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
		"none, without a key's name":    signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, map[string]any{"kid": nil}),
		"the public key's PEM":          signed(hs, text, nil),
		"the public key's trimmed PEM":  signed(hs, bytes.TrimSpace(text), nil),
		"the public key's DER":          signed(hs, der, nil),
		"the public key's PKCS 1":       signed(hs, pkcs1, nil),
		"HS512 with the PEM":            signed(jwt.SigningMethodHS512, text, map[string]any{"kid": nil}),
		"an empty secret":               signed(hs, []byte{}, nil),
		"the boot secret":               signed(hs, []byte(secret), nil),
		"its own key in jwk":            signed(rs, other, map[string]any{"jwk": jwkOf(t, "a", other)}),
		"its own key in jwk, no name":   signed(rs, other, map[string]any{"jwk": jwkOf(t, "b", other), "kid": nil}),
		"its own key behind jku":        signed(rs, other, map[string]any{"jku": evil.URL}),
		"its own key behind jku, x5u":   signed(rs, other, map[string]any{"jku": evil.URL, "x5u": evil.URL, "kid": "b"}),
		"its own certificate":           signed(rs, other, map[string]any{"x5c": []string{base64.StdEncoding.EncodeToString(der)}}),
		"another key":                   signed(rs, other, nil),
		"another algorithm in the text": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS512","kid":"a","typ":"JWT"}`)) + "." + parts[1] + "." + parts[2],
		"other claims":                  parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"role":"admin","x":1}`)) + "." + parts[2],
		"no signature":                  parts[0] + "." + parts[1] + ".",
		"a critical extension":          signed(rs, private, map[string]any{"crit": []string{"b64"}, "b64": false}),
		"a key's name that is a number": signed(rs, private, map[string]any{"kid": 7}),
		"a path for a key's name":       signed(hs, []byte{}, map[string]any{"kid": "../../../../dev/null"}),
	} {
		t.Run(name, func(t *testing.T) {
			id, err := r.identify(token)
			require.NoError(t, err)
			assert.ErrorIs(t, id.TokenErr, auth.ErrTokenInvalid)
			assert.Empty(t, id.Role, "never the role in the token")
			assert.Nil(t, id.Claims)
			assertDenial(t, id.Ops(r.snap.Policy), http.StatusUnauthorized, auth.CodeTokenInvalid)
			_, err = id.SelectGrant(r.snap.Policy, "open")
			assert.NoError(t, err, "a public table answers with anonymous rights")
			_, err = id.SelectGrant(r.snap.Policy, "closed")
			assertDenial(t, err, http.StatusUnauthorized, auth.CodeTokenInvalid)
		})
	}
	assert.Zero(t, evil.fetches.Load(), "a header never says where keys come from")
	assert.Equal(t, "admin", r.role(good))
}

func TestAKeyIsUsedForWhatItIsFor(t *testing.T) {
	private, small := rsaKey(t), ecKey(t, elliptic.P256())
	forPS := jwkOf(t, "ps", private)
	forPS["alg"] = "PS256"
	r := start(t, newKeyServer(t, setOf(t, forPS, jwkOf(t, "ec", small))).URL, quick()).ready()
	assert.Equal(t, "viewer", r.role(signWith(t, jwt.SigningMethodPS256, private, "ps", viewerClaims)))
	assert.Empty(t, r.role(signWith(t, jwt.SigningMethodRS256, private, "ps", viewerClaims)), "its alg says PS256")
	assert.Empty(t, r.role(signWith(t, jwt.SigningMethodRS256, private, "", viewerClaims)))
	assert.Empty(t, r.role(signWith(t, jwt.SigningMethodRS256, private, "ec", viewerClaims)), "an EC key for RSA")
}

func TestTheClaimsOfAKeySetsTokensAreChecked(t *testing.T) {
	private := rsaKey(t)
	r := start(t, newKeyServer(t, setOf(t, jwkOf(t, "a", private))).URL, quick()).ready()
	r.snap.Config.Auth.Issuer, r.snap.Config.Auth.Audience = "https://id.example.test", "wavehouse"
	good := func() jwt.MapClaims {
		return jwt.MapClaims{"role": "viewer", "iss": "https://id.example.test", "aud": "wavehouse", "exp": now.Add(time.Hour).Unix()}
	}
	for name, change := range map[string]struct {
		claim string
		value any
		want  error
	}{
		"as it is":          {"sub", "me", nil},
		"expired in leeway": {"exp", now.Add(-29 * time.Second).Unix(), nil},
		"expired":           {"exp", now.Add(-time.Minute).Unix(), auth.ErrTokenExpired},
		"early":             {"nbf", now.Add(time.Minute).Unix(), auth.ErrTokenInvalid},
		"another issuer":    {"iss", "https://id.example.test/", auth.ErrTokenInvalid},
		"another audience":  {"aud", []string{"a", "b"}, auth.ErrTokenInvalid},
		"no audience":       {"aud", nil, auth.ErrTokenInvalid},
	} {
		claims := good()
		claims[change.claim] = change.value
		id, err := r.identify(signWith(t, jwt.SigningMethodRS256, private, "a", claims))
		require.NoError(t, err)
		if change.want == nil {
			assert.NoError(t, id.TokenErr, name)
			continue
		}
		assert.ErrorIs(t, id.TokenErr, change.want, name)
	}
}

func TestATokenOfAnotherTenantDoesNotCount(t *testing.T) {
	mine, theirs := rsaKey(t), rsaKey(t)
	r := start(t, newKeyServer(t, setOf(t, jwkOf(t, "k", mine))).URL, quick())
	other := snapshot(t)
	other.Tenant = "other"
	other.Config.Auth.JWKSURL = newKeyServer(t, setOf(t, jwkOf(t, "k", theirs))).URL
	shared := snapshot(t)
	shared.Tenant = "shared"
	r.Reconcile(map[tenant.ID]*settings.Snapshot{tenant.Default: r.snap, "other": other, "shared": shared})
	r.ready()
	who := func(snap *settings.Snapshot, token string) (id auth.Identity) {
		eventually(t, "its keys", func() (fetched bool) {
			var err error
			id, err = r.Identify(request("Authorization", "Bearer "+token), snap, "")
			return err == nil
		})
		return id
	}
	tokens := map[*settings.Snapshot]string{
		r.snap: signWith(t, jwt.SigningMethodRS256, mine, "k", viewerClaims),
		other:  signWith(t, jwt.SigningMethodRS256, theirs, "k", viewerClaims),
		shared: sign(t, viewerClaims),
	}
	for range 2 { // the second time they are remembered
		for _, at := range []*settings.Snapshot{r.snap, other, shared} {
			for of, token := range tokens {
				id := who(at, token)
				assert.Equal(t, at == of, id.TokenErr == nil, "%s's token at %s", of.Tenant, at.Tenant)
			}
		}
	}
}

func TestSigningKeyRotates(t *testing.T) {
	a, b := rsaKey(t), ecKey(t, elliptic.P256())
	server := newKeyServer(t, setOf(t, jwkOf(t, "a", a)))
	timing := quick()
	timing.Refresh = 20 * time.Millisecond
	r := start(t, server.URL, timing).ready()
	byA := signWith(t, jwt.SigningMethodRS256, a, "a", viewerClaims)
	byB := signWith(t, jwt.SigningMethodES256, b, "b", viewerClaims)
	assert.Equal(t, "viewer", r.role(byA))
	assert.Empty(t, r.role(byB))

	server.answer(setOf(t, jwkOf(t, "a", a), jwkOf(t, "b", b)))
	eventually(t, "the new key", func() bool { return r.role(byB) == "viewer" })
	assert.Equal(t, "viewer", r.role(byA), "a key counts while it is listed")

	server.answer(setOf(t, jwkOf(t, "b", b)))
	eventually(t, "the end of the old key", func() bool { return r.role(byA) == "" })
	assert.Equal(t, "viewer", r.role(byB))

	// The same name with other bytes is another key.
	server.answer(setOf(t, jwkOf(t, "b", ecKey(t, elliptic.P256()))))
	eventually(t, "the end of the replaced key", func() bool { return r.role(byB) == "" })
}

func TestAnUnknownKeyIsFetchedWithTheRequestThatNamesIt(t *testing.T) {
	a, b := edKey(t), edKey(t)
	server := newKeyServer(t, setOf(t, jwkOf(t, "a", a)))
	r := start(t, server.URL, quick()).ready()
	byB := signWith(t, jwt.SigningMethodEdDSA, b, "b", viewerClaims)
	unnamed := signWith(t, jwt.SigningMethodEdDSA, b, "", viewerClaims)

	server.answer(setOf(t, jwkOf(t, "b", b)))
	eventually(t, "a fetch to be allowed", func() bool { return r.role(unnamed) == "viewer" })
	assert.Equal(t, "viewer", r.role(byB), "no refresh is due for an hour")
	lines := func() int { return strings.Count(r.log.String(), `"keys":1`) }
	eventually(t, "the line of the log", func() bool { return lines() >= 2 })
	assert.Equal(t, 2, lines(), "one line for each set of keys")
}

func TestUnknownKeysAreFetchedAtALimitedRate(t *testing.T) {
	a := edKey(t)
	server := newKeyServer(t, setOf(t, jwkOf(t, "a", a)))
	timing := quick()
	timing.Refetch = time.Hour
	r := start(t, server.URL, timing).ready()
	for i := range 200 {
		assert.Empty(t, r.role(signWith(t, jwt.SigningMethodEdDSA, edKey(t), fmt.Sprint("k", i), viewerClaims)))
	}
	assert.EqualValues(t, 1, server.fetches.Load())
	for range 50 {
		assert.Empty(t, r.role(signWith(t, jwt.SigningMethodEdDSA, edKey(t), "a", viewerClaims)))
	}
	assert.EqualValues(t, 1, server.fetches.Load(), "a bad signature by a known key asks for nothing")
}

func TestKeyServerNotReachable(t *testing.T) {
	private := rsaKey(t)
	set := setOf(t, jwkOf(t, "a", private))
	address := freePort(t)
	timing := quick()
	timing.Refresh = 10 * time.Millisecond
	r := start(t, "http://"+address, timing)
	token := signWith(t, jwt.SigningMethodRS256, private, "a", viewerClaims)

	_, err := r.identify(token)
	require.ErrorIs(t, err, auth.ErrVerifierPending)
	_, err = r.Identify(request(), r.snap, token)
	require.ErrorIs(t, err, auth.ErrVerifierPending, "the token of a stream, too")
	id, err := r.Identify(request(), r.snap, "")
	require.NoError(t, err)
	assert.Equal(t, auth.Identity{}, id, "without a token the anonymous rules")
	id, err = r.Identify(request("X-Operator-Key", key, "Authorization", "Bearer "+token), r.snap, "")
	require.NoError(t, err)
	assert.True(t, id.Operator, "the operator goes on")
	_, err = r.Identify(request("X-Operator-Key", "wrong", "Authorization", "Bearer "+token), r.snap, "")
	require.ErrorIs(t, err, auth.ErrVerifierPending, "a wrong key is no credential")
	assert.InDelta(t, 1, gathered(t, r, "wavehouse_auth_jwks_pending"), 0)
	eventually(t, "the failure in the log", func() bool { return strings.Contains(r.log.String(), "connection refused") })

	server := &keyServer{}
	server.answer(set)
	server.listenAt(t, address)
	eventually(t, "the keys", func() bool { return r.role(token) == "viewer" })
	assert.InDelta(t, 0, gathered(t, r, "wavehouse_auth_jwks_pending"), 0)

	for name, bad := range map[string]struct {
		handler http.HandlerFunc
		logged  string
	}{
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, set[:len(set)-1]+strings.Repeat(" ", 5<<20)+"}")
		}, "larger than 1048576 bytes"},
		"huge, announced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(5<<20))
		}, "larger than 1048576 bytes"},
		"huge, compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, set[:len(set)-1]+strings.Repeat(" ", 5<<20)+"}")
			_ = z.Close()
		}, "larger than 1048576 bytes"},
		"empty":      {answering(`{}`), "no key that verifies tokens"},
		"no keys":    {answering(`{"keys":[]}`), "no key that verifies tokens"},
		"a secret":   {answering(`{"keys":[{"kty":"oct","kid":"a","k":"c2VjcmV0"}]}`), `its kty is \"oct\"`},
		"no JSON":    {answering(`<html>`), "not a key set"},
		"many keys":  {answering(`{"keys":[` + strings.Repeat(`{},`, 64) + `{}]}`), "65 keys"},
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, set, http.StatusInternalServerError) }, "status 500"},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "status 204"},
		"a redirect": {func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/elsewhere", http.StatusFound) }, "redirect (status 302)"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server.handle(bad.handler)
			eventually(t, "the refusal in the log", func() bool { return strings.Contains(r.log.String(), bad.logged) })
			assert.Equal(t, "viewer", r.role(token), "the last good keys count")
		})
	}
	server.Close()
	refusals := strings.Count(r.log.String(), "connection refused")
	eventually(t, "the outage in the log", func() bool { return strings.Count(r.log.String(), "connection refused") > refusals })
	assert.Equal(t, "viewer", r.role(token))

	b := rsaKey(t)
	server = &keyServer{}
	server.answer(setOf(t, jwkOf(t, "b", b)))
	server.listenAt(t, address)
	defer server.Close()
	eventually(t, "the keys after the outage", func() bool {
		return r.role(signWith(t, jwt.SigningMethodRS256, b, "b", viewerClaims)) == "viewer"
	})
	assert.Empty(t, r.role(token))
	assert.NotContains(t, r.log.String(), token[:20])
}

func answering(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func gathered(t testing.TB, r *rig, name string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no such metric", name)
	return 0
}

func TestABadFirstAnswerIsPendingAndNotAnonymous(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"empty":    answering(`{}`),
		"redirect": http.RedirectHandler("https://example.test/", http.StatusMovedPermanently).ServeHTTP,
		"error":    http.NotFound,
	} {
		server := newKeyServer(t, "")
		server.handle(handler)
		r := start(t, server.URL, quick())
		eventually(t, "some fetches", func() bool { return server.fetches.Load() > 2 })
		_, err := r.identify(sign(t, viewerClaims))
		assert.ErrorIs(t, err, auth.ErrVerifierPending, name)
	}
}

func TestASlowKeyServerHoldsUpNobodyElse(t *testing.T) {
	private := edKey(t)
	slow := newKeyServer(t, "")
	slow.handle(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r := start(t, slow.URL, quick())
	eventually(t, "the slow fetch", func() bool { return slow.fetches.Load() >= 1 })

	other := snapshot(t)
	other.Config.Auth.JWKSURL = newKeyServer(t, setOf(t, jwkOf(t, "a", private))).URL
	r.Reconcile(map[tenant.ID]*settings.Snapshot{tenant.Default: r.snap, "other": other})
	token := signWith(t, jwt.SigningMethodEdDSA, private, "a", viewerClaims)
	eventually(t, "the other tenant's keys", func() bool {
		id, err := r.Identify(request("Authorization", "Bearer "+token), other, "")
		return err == nil && id.Role == "viewer"
	})
	_, err := r.identify(token)
	assert.ErrorIs(t, err, auth.ErrVerifierPending)
}

func TestVerifiersFollowTheTenants(t *testing.T) {
	private := edKey(t)
	set := setOf(t, jwkOf(t, "a", private))
	first, second := newKeyServer(t, set), newKeyServer(t, set)
	token := signWith(t, jwt.SigningMethodEdDSA, private, "a", viewerClaims)
	timing := quick()
	timing.Refresh = 5 * time.Millisecond
	r := start(t, first.URL, timing).ready()
	require.Equal(t, "viewer", r.role(token))

	moved := snapshot(t)
	moved.Config.Auth.JWKSURL = second.URL
	r.Reconcile(map[tenant.ID]*settings.Snapshot{tenant.Default: moved})
	eventually(t, "the keys of the new URL", func() bool {
		id, err := r.Identify(request("Authorization", "Bearer "+token), moved, "")
		return err == nil && id.Role == "viewer"
	})
	_, err := r.identify(token)
	assert.ErrorIs(t, err, auth.ErrVerifierPending, "a URL that nobody names has no keys any more")
	fetched := first.fetches.Load()
	later := second.fetches.Load() + 3
	eventually(t, "more fetches of the new URL", func() bool { return second.fetches.Load() > later })
	assert.LessOrEqual(t, first.fetches.Load(), fetched+1, "the old URL is left alone, but for a fetch under way")

	secretAgain := snapshot(t)
	r.Reconcile(map[tenant.ID]*settings.Snapshot{tenant.Default: secretAgain})
	id, err := r.Identify(request("Authorization", "Bearer "+token), secretAgain, "")
	require.NoError(t, err)
	assert.ErrorIs(t, id.TokenErr, auth.ErrTokenInvalid, "what the keys verified is not remembered for the secret")
	id, err = r.Identify(request("Authorization", "Bearer "+sign(t, viewerClaims)), secretAgain, "")
	require.NoError(t, err)
	assert.Equal(t, "viewer", id.Role)
	assert.Equal(t, 2, strings.Count(r.log.String(), "auth.jwt_secret is not used"), "once for each URL")
}

func TestTenantsShareTheKeysOfAURL(t *testing.T) {
	private := edKey(t)
	server := newKeyServer(t, setOf(t, jwkOf(t, "a", private)))
	snapshots := map[tenant.ID]*settings.Snapshot{}
	for i := range 50 {
		snap := snapshot(t)
		snap.Tenant = tenant.ID(fmt.Sprint("t", i))
		snap.Config.Auth.JWKSURL = server.URL
		snapshots[snap.Tenant] = snap
	}
	r := start(t, server.URL, quick())
	r.Reconcile(snapshots)
	r.ready()
	token := signWith(t, jwt.SigningMethodEdDSA, private, "a", viewerClaims)
	for _, snap := range snapshots {
		id, err := r.Identify(request("Authorization", "Bearer "+token), snap, "")
		require.NoError(t, err)
		assert.Equal(t, "viewer", id.Role)
	}
	assert.EqualValues(t, 1, server.fetches.Load())
}

func TestAReloadTriesAgainAtOnce(t *testing.T) {
	private := edKey(t)
	server := newKeyServer(t, "{}")
	timing := quick()
	timing.RetryMin, timing.RetryMax = time.Hour, time.Hour
	r := start(t, server.URL, timing)
	eventually(t, "the failure", func() bool { return strings.Contains(r.log.String(), "cannot fetch") })
	server.answer(setOf(t, jwkOf(t, "a", private)))
	r.Reconcile(map[tenant.ID]*settings.Snapshot{tenant.Default: r.snap})
	eventually(t, "the keys", func() bool {
		return r.role(signWith(t, jwt.SigningMethodEdDSA, private, "a", viewerClaims)) == "viewer"
	})
}

func TestTheURLsQueryIsNotLogged(t *testing.T) {
	server := newKeyServer(t, "{}")
	r := start(t, server.URL+"/keys?api_key=hunter2", quick())
	eventually(t, "a failure", func() bool { return strings.Contains(r.log.String(), server.URL+"/keys") })
	server.CloseClientConnections()
	server.Close()
	eventually(t, "another failure", func() bool { return strings.Contains(r.log.String(), "connection refused") })
	assert.NotContains(t, r.log.String(), "hunter2")
}

func TestFetchesAreCounted(t *testing.T) {
	server := newKeyServer(t, "{}")
	r := start(t, server.URL, quick())
	eventually(t, "a failure", func() bool { return strings.Contains(r.log.String(), "cannot fetch") })
	server.answer(setOf(t, jwkOf(t, "a", edKey(t))))
	r.ready()
	n, err := testutil.GatherAndCount(r.metrics, "wavehouse_auth_jwks_fetches_total")
	require.NoError(t, err)
	assert.Equal(t, 2, n, "one series for each result")
}

func TestKeysThatAreLeftOutDoNotSpoilTheOthers(t *testing.T) {
	good := edKey(t)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	with := func(members map[string]any, name string, value any) map[string]any {
		members[name] = value
		return members
	}
	for name, c := range map[string]struct {
		member any
		reason string
	}{
		"no object":        {"x", "not a key"},
		"encryption":       {with(jwkOf(t, "x", rsaKey(t)), "use", "enc"), `its use is "enc"`},
		"signing only":     {with(jwkOf(t, "x", rsaKey(t)), "key_ops", []string{"sign"}), "verify is not among its key_ops"},
		"another alg":      {with(jwkOf(t, "x", rsaKey(t)), "alg", "RSA-OAEP"), `its alg "RSA-OAEP"`},
		"a MAC's alg":      {with(jwkOf(t, "x", rsaKey(t)), "alg", "HS256"), `its alg "HS256"`},
		"another's alg":    {with(jwkOf(t, "x", ecKey(t, elliptic.P256())), "alg", "ES384"), `its alg "ES384"`},
		"a short key":      {jwkOf(t, "x", short), "it has 1024 bits"},
		"a huge key":       {with(jwkOf(t, "x", short), "n", base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{255}, 2048))), "it has 16384 bits"},
		"no modulus":       {with(jwkOf(t, "x", short), "n", ""), "its member n is missing"},
		"no exponent":      {with(jwkOf(t, "x", rsaKey(t)), "e", "!"), "its member e is missing"},
		"exponent one":     {with(jwkOf(t, "x", rsaKey(t)), "e", "AQ"), "its exponent e is out of range"},
		"another curve":    {with(jwkOf(t, "x", ecKey(t, elliptic.P256())), "crv", "secp256k1"), `its crv is "secp256k1"`},
		"curve of another": {with(jwkOf(t, "x", ecKey(t, elliptic.P256())), "crv", "P-384"), "its coordinates have 32 bytes, not 48"},
		"off the curve":    {with(jwkOf(t, "x", ecKey(t, elliptic.P256())), "x", base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))), "its point is not on the curve"},
		"no y":             {with(jwkOf(t, "x", ecKey(t, elliptic.P256())), "y", nil), "its member y is missing"},
		"X25519":           {with(jwkOf(t, "x", edKey(t)), "crv", "X25519"), `its crv is "X25519"`},
		"short Ed25519":    {with(jwkOf(t, "x", edKey(t)), "x", "AQ"), "its x has 1 bytes, not 32"},
		"no Ed25519":       {with(jwkOf(t, "x", edKey(t)), "x", ""), "its member x is missing"},
		"a long name":      {jwkOf(t, strings.Repeat("x", 600), edKey(t)), "its kid is longer"},
		"no kind":          {map[string]any{"kid": "x"}, `its kty is ""`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(map[string]any{"keys": []any{c.member, with(jwkOf(t, "a", good), "alg", "Ed25519")}, "more": 1})
			require.NoError(t, err)
			r := start(t, newKeyServer(t, string(text)).URL, quick()).ready()
			assert.Equal(t, "viewer", r.role(signWith(t, jwt.SigningMethodEdDSA, good, "a", viewerClaims)))
			eventually(t, "the reason in the log", func() bool {
				return strings.Contains(strings.ReplaceAll(r.log.String(), `\"`, `"`), "keys[0]: "+c.reason)
			})
		})
	}
}
