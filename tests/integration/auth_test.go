package integration

import (
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// halfPublic lets everyone read pages but not its secret column; the admin
// role may do everything.
const halfPublic = `{"default_role":"public","tables":{"pages":{"public":{"select":{"deny_columns":["secret"]}},"analyst":{"select":{}},"viewer":{"select":{"allow_columns":["page"]}}}}}`

func TestAlgorithmInTheHeaderIsNotTrusted(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: halfPublic}, `{"event_id":"1","page":"/","secret":"s3"}`)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	claims := jwt.MapClaims{"role": "admin"}
	good := token(t, claims)
	bad := map[string]string{
		"none":         signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims),
		"RS256":        signed(t, jwt.SigningMethodRS256, key, claims),
		"other secret": signed(t, jwt.SigningMethodHS256, []byte("another"), claims),
		"no signature": good[:len(good)-43],
		"cut":          good[:len(good)/2],
		"expired":      token(t, jwt.MapClaims{"role": "admin", "exp": time.Now().Add(-time.Hour).Unix()}),
		"not yet":      token(t, jwt.MapClaims{"role": "admin", "nbf": time.Now().Add(time.Hour).Unix()}),
	}
	for name, text := range bad {
		caller := []string{"Authorization", "Bearer " + text}
		code := "auth.token_invalid"
		if name == "expired" {
			code = "auth.token_expired"
		}
		a := s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, caller...)
		refused(t, a, http.StatusUnauthorized, code)
		assert.NotEmpty(t, a.header.Get("WWW-Authenticate"))
		rows := s.rows("pages", `{"select_all":true}`, caller...)
		assert.NotContains(t, string(rows[0]), "s3", "anonymous rights only: %s", name)
		assert.NotEqual(t, http.StatusOK, s.query("pages", `{"columns":["secret"]}`, caller...).status)
		refused(t, s.ingest("pages", `{"event_id":"2","page":"/"}`, caller...), http.StatusUnauthorized, code)
	}
	for _, method := range []jwt.SigningMethod{jwt.SigningMethodHS256, jwt.SigningMethodHS384, jwt.SigningMethodHS512} {
		a := s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, "Authorization", "Bearer "+signed(t, method, []byte(jwtSecret), claims))
		assert.Equal(t, http.StatusOK, a.status)
	}
	inLeeway := token(t, jwt.MapClaims{"role": "admin", "exp": time.Now().Add(-5 * time.Second).Unix()})
	assert.Equal(t, http.StatusOK, s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, "Authorization", "Bearer "+inLeeway).status)
}

func TestTwoCredentials(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: halfPublic, logLevel: "debug"}, `{"event_id":"1","page":"/","secret":"s3"}`)
	analyst, viewer := token(t, jwt.MapClaims{"role": "analyst"}), token(t, jwt.MapClaims{"role": "viewer"})
	stream, err := s.tryListen("table=pages&token="+analyst, "", "Authorization", "Bearer "+viewer)
	require.NoError(t, err)
	header := &live{stream, t}
	stream, err = s.tryListen("table=pages&token="+analyst, "")
	require.NoError(t, err)
	parameter := &live{stream, t}
	public := s.listen("pages", "")
	a := s.ingest("pages", `{"event_id":"2","page":"/2","secret":"s4"}`, "X-Operator-Key", operatorKey)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.JSONEq(t, `{"page":"/2"}`, string(header.rows(1)[0]), "the header wins")
	assert.JSONEq(t, `{"event_id":"2","page":"/2","secret":"s4"}`, string(parameter.rows(1)[0]))
	assert.JSONEq(t, `{"event_id":"2","page":"/2"}`, string(public.rows(1)[0]))

	for _, value := range []string{"bearer " + analyst, "Bearer  " + analyst, "BEARER " + analyst} {
		assert.Equal(t, http.StatusOK, s.query("pages", `{"columns":["secret"]}`, "Authorization", value).status, value)
	}
	refused(t, s.query("pages", `{"columns":["page"]}`, "Authorization", "Bearer "+analyst, "Authorization", "Bearer "+viewer), http.StatusBadRequest, "auth.multiple_credentials")
	// A token in the URL is for streams alone.
	a = s.do(http.MethodPost, "/v1/query?table=pages&token="+analyst, `{"columns":["secret"]}`)
	assert.Equal(t, http.StatusForbidden, a.status)
	s.refusedStream("table=secrets&token=nonsense-token-that-is-long", "", http.StatusUnauthorized, "auth.token_invalid")
	stream, err = s.tryListen("table=pages&token=nonsense-token-that-is-long", "")
	require.NoError(t, err, "anonymous may read it")
	stream.Close()

	s.stop()
	for _, text := range []string{analyst, viewer, "nonsense-token-that-is-long"} {
		assert.NotContains(t, s.logs.String(), text[:20])
	}
	assert.NotEmpty(t, s.logs.lines(`"route":"/v1/stream"`), "the access log has the streams")
}

func TestOperatorKey(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: halfPublic}, `{"event_id":"1","page":"/","secret":"s3"}`)
	for _, caller := range [][]string{{"X-Operator-Key", operatorKey}, {"Authorization", "Operator " + operatorKey}, {"Authorization", "operator " + operatorKey}} {
		assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/v1/ops/tenants", "", caller...).status)
		assert.Len(t, s.rows("pages", `{"columns":["secret"]}`, caller...), 1)
	}
	for _, caller := range [][]string{{"X-Operator-Key", "wrong"}, {"Authorization", "Operator "}, {"X-Operator-Key", operatorKey + "x"}, nil} {
		assert.Equal(t, http.StatusForbidden, s.do(http.MethodGet, "/v1/ops/tenants", "", caller...).status)
	}
	assert.Contains(t, s.do(http.MethodGet, "/metrics", "").body, "wavehouse_auth_operator_key_failures_total 3")
	assert.Len(t, s.logs.lines(`"level":"WARN"`, "wrong operator key"), 3)
}
