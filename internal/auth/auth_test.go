package auth_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/claim"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	secret = "a secret that is long enough for a test"
	key    = "the operator's key"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// forAll is one secret for every tenant.
func forAll(secret string) func(tenant.ID) string { return func(tenant.ID) string { return secret } }

func authenticator(o auth.Options) *auth.Authenticator {
	o.Secret, o.OperatorKey = forAll(secret), key
	o.Now = func() time.Time { return now }
	return auth.New(o)
}

// snapshot is a tenant whose anonymous callers may read the table "open".
func snapshot(t *testing.T) *settings.Snapshot {
	t.Helper()
	public := "public"
	p, faults, _ := policy.Compile(&policy.Document{
		DefaultRole: &public,
		Tables: map[string]policy.TableDocument{
			"open":   {"public": {Select: &policy.SelectDocument{}}},
			"closed": {"viewer": {Select: &policy.SelectDocument{}, Insert: &policy.InsertDocument{}}},
		},
	}, []string{"public", "viewer"})
	require.Empty(t, faults)
	return &settings.Snapshot{Config: new(settings.DefaultConfig()), Policy: p}
}

func sign(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	require.NoError(t, err)
	return token
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/stream", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func identify(t *testing.T, snap *settings.Snapshot, r *http.Request, streamToken string) auth.Identity {
	t.Helper()
	id, err := authenticator(auth.Options{}).Identify(r, snap, streamToken)
	require.NoError(t, err)
	return id
}

func TestValidTokens(t *testing.T) {
	snap := snapshot(t)
	for _, method := range []jwt.SigningMethod{jwt.SigningMethodHS256, jwt.SigningMethodHS384, jwt.SigningMethodHS512} {
		token, err := jwt.NewWithClaims(method, jwt.MapClaims{"role": "viewer"}).SignedString([]byte(secret))
		require.NoError(t, err)
		id := identify(t, snap, request("Authorization", "Bearer "+token), "")
		assert.NoError(t, id.TokenErr)
		assert.Equal(t, "viewer", id.Role, method.Alg())
		assert.True(t, id.Expires.IsZero())
		assert.False(t, id.Operator)
	}
}

func TestClaimsKeepTheirDigits(t *testing.T) {
	token := sign(t, jwt.MapClaims{"tenant": json.Number("9007199254740993"), "app": map[string]any{"n": json.Number("1.10")}})
	id := identify(t, snapshot(t), request("Authorization", "Bearer "+token), "")
	require.NoError(t, id.TokenErr)
	assert.Equal(t, json.Number("9007199254740993"), id.Claims["tenant"])
	assert.Equal(t, map[string]any{"n": json.Number("1.10")}, id.Claims["app"])
}

func TestTheClockHasLeeway(t *testing.T) {
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	cases := []struct {
		name   string
		claims jwt.MapClaims
		want   error
	}{
		{"fresh", jwt.MapClaims{"exp": at(time.Minute)}, nil},
		{"expired within the leeway", jwt.MapClaims{"exp": at(-29 * time.Second)}, nil},
		{"expired", jwt.MapClaims{"exp": at(-31 * time.Second)}, auth.ErrTokenExpired},
		{"early within the leeway", jwt.MapClaims{"nbf": at(29 * time.Second)}, nil},
		{"early", jwt.MapClaims{"nbf": at(31 * time.Second)}, auth.ErrTokenInvalid},
		{"early and expired", jwt.MapClaims{"nbf": at(time.Hour), "exp": at(-time.Hour)}, auth.ErrTokenInvalid},
		{"expiry of the wrong kind", jwt.MapClaims{"exp": "tomorrow"}, auth.ErrTokenInvalid},
		{"expiry zero", jwt.MapClaims{"exp": 0}, auth.ErrTokenExpired},
		{"expiry out of all range", jwt.MapClaims{"exp": json.Number("1e400")}, auth.ErrTokenExpired},
		{"a start out of all range", jwt.MapClaims{"nbf": json.Number("1e400")}, auth.ErrTokenInvalid},
		{"a start that no clock reaches", jwt.MapClaims{"nbf": json.Number("1e300")}, auth.ErrTokenInvalid},
		{"a start long past", jwt.MapClaims{"nbf": json.Number("-1e300")}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.claims["role"] = "viewer"
			id := identify(t, snapshot(t), request("Authorization", "Bearer "+sign(t, c.claims)), "")
			if c.want == nil {
				assert.NoError(t, id.TokenErr)
				assert.Equal(t, "viewer", id.Role)
				return
			}
			assert.ErrorIs(t, id.TokenErr, c.want)
			assert.Empty(t, id.Role)
			assert.Nil(t, id.Claims)
		})
	}
	id := identify(t, snapshot(t), request("Authorization", "Bearer "+sign(t, jwt.MapClaims{"exp": at(time.Minute)})), "")
	assert.True(t, id.Expires.Equal(now.Add(time.Minute+30*time.Second)), "the leeway is part of the life of a token")
}

func TestIssuerAndAudience(t *testing.T) {
	snap := snapshot(t)
	snap.Config.Auth.Issuer, snap.Config.Auth.Audience = "https://id.example.test/", "wavehouse"
	good := jwt.MapClaims{"iss": "https://id.example.test/", "aud": []string{"other", "wavehouse"}, "role": "viewer"}
	assert.NoError(t, identify(t, snap, request("Authorization", "Bearer "+sign(t, good)), "").TokenErr)
	for name, claims := range map[string]jwt.MapClaims{
		"no issuer":      {"aud": "wavehouse"},
		"wrong issuer":   {"iss": "https://id.example.test", "aud": "wavehouse"},
		"no audience":    {"iss": "https://id.example.test/"},
		"wrong audience": {"iss": "https://id.example.test/", "aud": "wavehouse2"},
	} {
		id := identify(t, snap, request("Authorization", "Bearer "+sign(t, claims)), "")
		assert.ErrorIs(t, id.TokenErr, auth.ErrTokenInvalid, name)
	}
}

func TestATokenThatIsTooLongIsToldTheLimit(t *testing.T) {
	long := sign(t, jwt.MapClaims{"role": "viewer", "x": strings.Repeat("a", 16<<10)})
	id := identify(t, snapshot(t), request("Authorization", "Bearer "+long), "")
	assert.ErrorIs(t, id.TokenErr, auth.ErrTokenInvalid)
	assert.ErrorContains(t, id.TokenErr, "16 KiB")
	assert.Empty(t, id.Role)
}

func TestRoleClaim(t *testing.T) {
	claims := jwt.MapClaims{
		"role": "top", "app_metadata": map[string]any{"role": "inner", "deep": map[string]any{"role": "deepest"}},
		"https://example.test/role": "named by a URL", "app_metadata.role": "admin", "https://example.test": map[string]any{"role": "x"},
		"https://example.test/app": map[string]any{"role": "inside a URL"},
		"list":                     []string{"admin"}, "number": 7, "flag": true, "nothing": nil,
	}
	for path, want := range map[string]string{
		"role": "top", "app_metadata.role": "inner", "app_metadata.deep.role": "deepest",
		`"https://example.test/role"`: "named by a URL", `"https://example.test/app".role`: "inside a URL", `"app_metadata.role"`: "admin",
		"": "", "missing": "", "app_metadata": "", "app_metadata.missing": "", "role.inner": "",
		"list": "", "list.0": "", "number": "", "flag": "", "nothing": "", ".": "", "app_metadata.": "",
	} {
		snap := snapshot(t)
		snap.Config.Auth.RoleClaim = claim.Path(path)
		id := identify(t, snap, request("Authorization", "Bearer "+sign(t, claims)), "")
		assert.NoError(t, id.TokenErr)
		assert.Equal(t, want, id.Role, "claim %q", path)
	}
}

func TestTheAlgorithmOfATokenIsNotTrusted(t *testing.T) {
	snap := snapshot(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	claims := jwt.MapClaims{"role": "viewer"}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	require.NoError(t, err)

	signed := func(method jwt.SigningMethod, key any, header map[string]any) string {
		token := jwt.NewWithClaims(method, claims)
		for k, v := range header {
			token.Header[k] = v
		}
		text, err := token.SignedString(key)
		require.NoError(t, err)
		return text
	}
	for name, token := range map[string]string{
		"none":                     signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
		"none, spelled otherwise":  signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, map[string]any{"alg": "nOnE"}),
		"another family":           signed(jwt.SigningMethodRS256, private, nil),
		"another family, own key":  signed(jwt.SigningMethodRS256, private, map[string]any{"jwk": "x", "jku": "http://127.0.0.1/"}),
		"a public key as a secret": signed(jwt.SigningMethodHS256, der, nil),
		"another secret":           signed(jwt.SigningMethodHS256, []byte("guess"), nil),
		"an empty secret":          signed(jwt.SigningMethodHS256, []byte{}, nil),
		"a critical extension":     signed(jwt.SigningMethodHS256, []byte(secret), map[string]any{"crit": []string{"exp"}}),
		"lower case":               signed(jwt.SigningMethodHS256, []byte(secret), map[string]any{"alg": "hs256"}),
		"not a token":              "garbage",
		"two dots":                 "..",
		"very long":                sign(t, claims) + string(bytes.Repeat([]byte("A"), 20<<10)),
	} {
		t.Run(name, func(t *testing.T) {
			id := identify(t, snap, request("Authorization", "Bearer "+token), "")
			assert.ErrorIs(t, id.TokenErr, auth.ErrTokenInvalid)
			assert.Empty(t, id.Role, "never the role in the token")
			_, err := id.SelectGrant(snap.Policy, "open")
			assert.NoError(t, err, "a public table answers with anonymous rights")
			_, err = id.SelectGrant(snap.Policy, "closed")
			assertDenial(t, err, http.StatusUnauthorized, auth.CodeTokenInvalid)
			assertDenial(t, id.Ops(snap.Policy), http.StatusUnauthorized, auth.CodeTokenInvalid)
		})
	}
}

func TestWithoutASecretEveryTokenIsBad(t *testing.T) {
	empty, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"role": "viewer"}).SignedString([]byte{})
	require.NoError(t, err)
	for _, token := range []string{empty, sign(t, jwt.MapClaims{"role": "viewer"})} {
		id, err := auth.New(auth.Options{Secret: forAll("")}).Identify(request("Authorization", "Bearer "+token), snapshot(t), "")
		require.NoError(t, err)
		assert.ErrorIs(t, id.TokenErr, auth.ErrTokenInvalid)
		assert.Empty(t, id.Role)
	}
}

func TestTwoCredentialsInOneRequest(t *testing.T) {
	snap := snapshot(t)
	viewer := sign(t, jwt.MapClaims{"role": "viewer"})
	analyst := sign(t, jwt.MapClaims{"role": "analyst"})

	assert.Equal(t, "viewer", identify(t, snap, request("Authorization", "Bearer "+viewer), analyst).Role, "the header wins")
	assert.Equal(t, "analyst", identify(t, snap, request(), analyst).Role)
	assert.ErrorIs(t, identify(t, snap, request("Authorization", "Bearer x"), analyst).TokenErr, auth.ErrTokenInvalid,
		"a bad header is not mended by the query string")
	assert.Empty(t, identify(t, snap, request("Authorization", ""), analyst).Role, "an empty header is there, too")

	for _, header := range []string{"bearer " + viewer, "BEARER " + viewer, "Bearer  " + viewer, " Bearer " + viewer + " "} {
		assert.Equal(t, "viewer", identify(t, snap, request("Authorization", header), "").Role, "%q", header[:9])
	}
	for _, header := range []string{"Bearer", "Bearer ", viewer, "Basic dXNlcjpwYXNz", "Bearer " + viewer + ", Bearer " + analyst} {
		id := identify(t, snap, request("Authorization", header), "")
		assert.ErrorIs(t, id.TokenErr, auth.ErrTokenInvalid)
		assert.Empty(t, id.Role)
	}

	for _, r := range []*http.Request{
		request("Authorization", "Bearer "+viewer, "Authorization", "Bearer "+viewer),
		request("Authorization", "Operator "+key, "Authorization", "Bearer "+viewer),
		request("X-Operator-Key", key, "X-Operator-Key", key),
	} {
		_, err := authenticator(auth.Options{}).Identify(r, snap, "")
		assert.ErrorIs(t, err, auth.ErrMultipleCredentials)
	}
}

func TestOperatorKey(t *testing.T) {
	snap := snapshot(t)
	viewer := sign(t, jwt.MapClaims{"role": "viewer"})
	for _, r := range []*http.Request{
		request("Authorization", "Operator "+key),
		request("Authorization", "operator  "+key),
		request("X-Operator-Key", key),
		request("X-Operator-Key", key, "Authorization", "Bearer garbage"),
		request("X-Operator-Key", "wrong", "Authorization", "Operator "+key),
	} {
		for _, s := range []*settings.Snapshot{snap, nil} {
			id := identify(t, s, r, "")
			assert.Equal(t, auth.Identity{Operator: true}, id)
		}
	}
	id := identify(t, snap, request("X-Operator-Key", "wrong", "Authorization", "Bearer "+viewer), "")
	assert.Equal(t, "viewer", id.Role, "a wrong key is no credential, and a token beside it counts")
	assert.Equal(t, auth.Identity{}, identify(t, snap, request("X-Operator-Key", ""), ""))
	assert.Equal(t, auth.Identity{}, identify(t, snap, request(), ""))
}

func TestAWrongOperatorKeyIsCountedAndLoggedWithoutTheKey(t *testing.T) {
	var log bytes.Buffer
	metrics := prometheus.NewRegistry()
	a := authenticator(auth.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Metrics: metrics})
	for _, r := range []*http.Request{
		request("Authorization", "Operator hunter2"), request("Authorization", "Operator"), request("X-Operator-Key", "hunter2"),
		request("X-Operator-Key", key+"x"), request("X-Operator-Key", key[:5]),
	} {
		id, err := a.Identify(r, snapshot(t), "")
		require.NoError(t, err)
		assert.Equal(t, auth.Identity{}, id)
	}
	_, err := a.Identify(request("X-Operator-Key", key), snapshot(t), "")
	require.NoError(t, err)

	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
		# HELP wavehouse_auth_operator_key_failures_total Requests that carried a wrong operator key.
		# TYPE wavehouse_auth_operator_key_failures_total counter
		wavehouse_auth_operator_key_failures_total 5
	`), "wavehouse_auth_operator_key_failures_total"))
	assert.Equal(t, 5, bytes.Count(log.Bytes(), []byte(`"level":"WARN"`)))
	assert.NotContains(t, log.String(), "hunter2")
	assert.NotContains(t, log.String(), key[:5])
}

func TestWithoutAnOperatorKeyNoneMatches(t *testing.T) {
	a := auth.New(auth.Options{Secret: forAll(secret)})
	for _, r := range []*http.Request{
		request("X-Operator-Key", ""), request("Authorization", "Operator"), request("Authorization", "Operator "), request("X-Operator-Key", "x"),
	} {
		id, err := a.Identify(r, snapshot(t), "")
		require.NoError(t, err)
		assert.False(t, id.Operator)
	}
}

func TestWithoutASnapshotNoTokenCounts(t *testing.T) {
	id := identify(t, nil, request("Authorization", "Bearer "+sign(t, jwt.MapClaims{"role": "admin"})), "")
	assert.ErrorIs(t, id.TokenErr, auth.ErrTokenInvalid)
	assertDenial(t, id.Ops(nil), http.StatusUnauthorized, auth.CodeTokenInvalid)
}
