package integration

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rawToken signs a header and claims as they are written, with the secret that
// the servers here know.
func rawToken(header, claims, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

const plainHeader = `{"alg":"HS256","typ":"JWT"}`

// nobody holds a token to no more rights than its absence gives: on ops, on a
// table that is not public, on one that is, and on a stream.
func nobody(t *testing.T, s *server, name, text string) {
	t.Helper()
	caller := []string{"Authorization", "Bearer " + text}
	for _, a := range []answer{
		s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1 AS one"}`, caller...), s.do(http.MethodGet, "/v1/ops/tenants", "", caller...),
		s.query("pages", `{"columns":["secret"]}`, caller...), s.ingest("pages", `{"event_id":"x","page":"/"}`, caller...),
	} {
		assert.Equal(t, http.StatusUnauthorized, a.status, "%s: %s", name, a.body)
		assert.NotContains(t, a.body, "s3", name)
		if len(text) > 20 {
			assert.NotContains(t, a.body, text[:20], name)
		}
	}
	a := s.query("pages", `{"select_all":true}`, caller...)
	assert.Equal(t, http.StatusOK, a.status, "%s: %s", name, a.body)
	assert.NotContains(t, a.body, "s3", name)
	_, err := s.tryListen("table=closed&token="+url.QueryEscape(text), "")
	require.Error(t, err, name)
}

// A token that was not signed by the tenant's verifier, or not for now, or that
// can be read in two ways, counts for nothing.
func TestAdversaryForgedTokens(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: halfPublic, logLevel: "debug"}, `{"event_id":"1","page":"/","secret":"s3"}`)
	admin := `{"role":"admin"}`
	good := rawToken(plainHeader, admin, jwtSecret)
	require.Equal(t, http.StatusOK, s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, "Authorization", "Bearer "+good).status)
	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	forged := map[string]string{
		"none":                   encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"none, signed":           encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + "." + parts[2],
		"None":                   encode([]byte(`{"alg":"None"}`)) + "." + parts[1] + ".",
		"no algorithm":           rawToken(`{"typ":"JWT"}`, admin, jwtSecret),
		"algorithm null":         rawToken(`{"alg":null}`, admin, jwtSecret),
		"algorithm a list":       rawToken(`{"alg":["HS256"]}`, admin, jwtSecret),
		"hs256":                  rawToken(`{"alg":"hs256"}`, admin, jwtSecret),
		"HS256 with a space":     rawToken(`{"alg":"HS256 "}`, admin, jwtSecret),
		"first none":             rawToken(`{"alg":"none","alg":"RS256"}`, admin, jwtSecret),
		"crit":                   rawToken(`{"alg":"HS256","crit":["exp"]}`, admin, jwtSecret),
		"crit, empty":            rawToken(`{"alg":"HS256","crit":[]}`, admin, jwtSecret),
		"crit, null":             rawToken(`{"alg":"HS256","crit":null}`, admin, jwtSecret),
		"b64":                    rawToken(`{"alg":"HS256","b64":false,"crit":["b64"]}`, admin, jwtSecret),
		"header a list":          rawToken(`["HS256"]`, admin, jwtSecret),
		"header cut":             rawToken(`{"alg":"HS256"`, admin, jwtSecret),
		"header and more":        rawToken(plainHeader+`{}`, admin, jwtSecret),
		"claims a list":          rawToken(plainHeader, `[{"role":"admin"}]`, jwtSecret),
		"claims and more":        rawToken(plainHeader, admin+`{"role":"admin"}`, jwtSecret),
		"claims not UTF-8":       rawToken(plainHeader, "{\"role\":\"admin\xff", jwtSecret),
		"claims other":           parts[0] + "." + encode([]byte(`{"role":"admin","x":1}`)) + "." + parts[2],
		"other secret":           rawToken(plainHeader, admin, "another"),
		"empty secret":           rawToken(plainHeader, admin, ""),
		"the secret's beginning": rawToken(plainHeader, admin, jwtSecret[:len(jwtSecret)-1]),
		"the operator key":       rawToken(plainHeader, admin, operatorKey),
		"signature empty":        parts[0] + "." + parts[1] + ".",
		"signature cut":          good[:len(good)-2],
		"signature longer":       good + "A",
		"signature padded":       good + "=",
		"two parts":              parts[0] + "." + parts[1],
		"four parts":             good + "." + parts[2],
		"five parts":             good + ".." + parts[2],
		"spaces within":          parts[0] + " ." + parts[1] + "." + parts[2],
		"standard alphabet":      parts[0] + "." + parts[1] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(parts[2]) + "+",
		"huge":                   rawToken(plainHeader, `{"role":"admin","x":"`+strings.Repeat("a", 20<<10)+`"}`, jwtSecret),
		"huge header":            rawToken(`{"alg":"HS256","x":"`+strings.Repeat("a", 20<<10)+`"}`, admin, jwtSecret),
		"deep":                   rawToken(plainHeader, `{"role":"admin","x":`+strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000)+`}`, jwtSecret),
		"JSON serialisation":     `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"an encrypted one":       encode([]byte(`{"alg":"dir","enc":"A128GCM"}`)) + "..." + parts[1] + ".",
		"exp text":               rawToken(plainHeader, `{"role":"admin","exp":"4102444800"}`, jwtSecret),
		"exp object":             rawToken(plainHeader, `{"role":"admin","exp":{}}`, jwtSecret),
		"exp true":               rawToken(plainHeader, `{"role":"admin","exp":true}`, jwtSecret),
		"exp list":               rawToken(plainHeader, `{"role":"admin","exp":[4102444800]}`, jwtSecret),
		"nbf in future":          rawToken(plainHeader, `{"role":"admin","nbf":`+strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)+`}`, jwtSecret),
		"nbf text":               rawToken(plainHeader, `{"role":"admin","nbf":"0"}`, jwtSecret),
		"nbf far":                rawToken(plainHeader, `{"role":"admin","nbf":1e300}`, jwtSecret),
		"exp negative":           rawToken(plainHeader, `{"role":"admin","exp":-1}`, jwtSecret),
		"exp zero":               rawToken(plainHeader, `{"role":"admin","exp":0}`, jwtSecret),
		"exp fraction, past":     rawToken(plainHeader, `{"role":"admin","exp":1.5}`, jwtSecret),
		"exp just past":          rawToken(plainHeader, `{"role":"admin","exp":`+strconv.FormatInt(time.Now().Add(-40*time.Second).Unix(), 10)+`.9}`, jwtSecret),
	}
	for name, text := range forged {
		nobody(t, s, name, text)
	}
	// The role is one text, and a token without one is nobody's.
	for name, claims := range map[string]string{
		"role list": `{"role":["admin"]}`, "role object": `{"role":{"admin":true}}`, "role null": `{"role":null}`, "role true": `{"role":true}`, "roles": `{"roles":"admin"}`,
		"Role": `{"Role":"admin"}`, "role Admin": `{"role":"Admin"}`, "role with a space": `{"role":"admin "}`, "role with a null": `{"role":"admin\u0000"}`, "role Cyrillic": `{"role":"аdmin"}`,
		"role *": `{"role":"*"}`, "role empty": `{"role":""}`, "role SQL": `{"role":"x' OR 'admin'='admin"}`, "role path": `{"role":"../admin"}`, "role template": `{"role":"{{ jwt.role }}"}`,
		"no claims": `{}`,
	} {
		caller := []string{"Authorization", "Bearer " + rawToken(plainHeader, claims, jwtSecret)}
		assert.Equal(t, http.StatusForbidden, s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, caller...).status, name)
		a := s.query("pages", `{"columns":["secret"]}`, caller...)
		assert.Equal(t, http.StatusForbidden, a.status, "%s: %s", name, a.body)
	}
	s.stop()
	for name, text := range forged {
		if len(text) > 40 {
			assert.NotContains(t, s.logs.String(), text[len(text)-30:], name)
		}
	}
}

// A token that repeats a claim is read the same way wherever it is asked.
func TestAdversaryRepeatedClaims(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: rulePolicy}, `{"event_id":"b1","page":"/","org":"birch","secret":"hush"}`, `{"event_id":"c1","page":"/","org":"cedar","secret":"hush"}`)
	caller := []string{"Authorization", "Bearer " + rawToken(plainHeader, `{"role":"analyst","org":"birch","org":"cedar"}`, jwtSecret)}
	l := s.listen("pages", "", caller...)
	a := s.query("pages", `{"columns":["event_id"]}`, caller...)
	if a.status != http.StatusOK { // refused is right as well
		assert.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, a.status)
		return
	}
	assert.Equal(t, `[{"event_id":"c1"}]`, compact(t, []byte(a.body)), "the last one, and no row of the other")
	s.operator("pages", `{"event_id":"b2","page":"/","org":"birch"}`+"\n"+`{"event_id":"c2","page":"/","org":"cedar"}`)
	assert.Equal(t, []string{"c2"}, ids(t, l.rows(1)))
}

// The key of a key set is looked up by its name among the keys that were
// fetched, and is never made, fetched or read from what a token says.
func TestAdversaryKeySetTokens(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	keys := newKeyServer(t)
	keys.answer(t, map[string]crypto.Signer{"a": key})
	keys.up(t)
	var asked atomic.Int64
	theirs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(theirs.Close)
	config := map[string]string{"auth": strings.Replace(keys.config()["auth"], `{`, `{"issuer":"https://id.example.test/","audience":"wavehouse",`, 1)}
	s := start(t, options{policies: halfPublic, config: config}, pagesTable, `INSERT INTO pages (event_id, page, secret) VALUES ('1', '/', 's3')`)

	claims := func(more jwt.MapClaims) jwt.MapClaims {
		all := jwt.MapClaims{"role": "admin", "iss": "https://id.example.test/", "aud": "wavehouse"}
		for name, value := range more {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		return all
	}
	sign := func(method jwt.SigningMethod, key any, header map[string]any, c jwt.MapClaims) string {
		made := jwt.NewWithClaims(method, c)
		made.Header["kid"] = "a"
		for name, value := range header {
			made.Header[name] = value
		}
		text, err := made.SignedString(key)
		require.NoError(t, err)
		return text
	}
	rs, hs := jwt.SigningMethodRS256, jwt.SigningMethodHS256
	good := sign(rs, key, nil, claims(nil))
	s.eventually(func() string {
		a := s.do(http.MethodPost, "/v1/ops/query", `{"sql":"SELECT 1"}`, "Authorization", "Bearer "+good)
		return unless(a.status == http.StatusOK, a.body)
	})
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	pemText := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	bad := map[string]string{
		"the boot secret":      sign(hs, []byte(jwtSecret), nil, claims(nil)),
		"the public key's PEM": sign(hs, pemText, nil, claims(nil)),
		"the public key's DER": sign(hs, der, nil, claims(nil)),
		"the modulus":          sign(hs, key.N.Bytes(), nil, claims(nil)),
		"the key set's text":   sign(hs, []byte(*keys.set.Load()), nil, claims(nil)),
		"nothing":              sign(hs, []byte{}, map[string]any{"kid": "/dev/null"}, claims(nil)),
		"PS256 of another key": sign(jwt.SigningMethodPS256, own, nil, claims(nil)),
		"another key":          sign(rs, own, nil, claims(nil)),
		"jku":                  sign(rs, own, map[string]any{"jku": theirs.URL}, claims(nil)),
		"x5u":                  sign(rs, own, map[string]any{"x5u": theirs.URL, "kid": theirs.URL}, claims(nil)),
		"jwk":                  sign(rs, own, map[string]any{"jwk": map[string]any{"kty": "RSA", "n": own.N.String(), "e": "AQAB"}}, claims(nil)),
		"x5c":                  sign(rs, own, map[string]any{"x5c": []string{base64.StdEncoding.EncodeToString(der)}}, claims(nil)),
		"crit":                 sign(rs, key, map[string]any{"crit": []string{"exp"}}, claims(nil)),
		"no issuer":            sign(rs, key, nil, claims(jwt.MapClaims{"iss": nil})),
		"another issuer":       sign(rs, key, nil, claims(jwt.MapClaims{"iss": "https://id.example.test"})),
		"issuers":              sign(rs, key, nil, claims(jwt.MapClaims{"iss": []string{"https://id.example.test/"}})),
		"no audience":          sign(rs, key, nil, claims(jwt.MapClaims{"aud": nil})),
		"another audience":     sign(rs, key, nil, claims(jwt.MapClaims{"aud": []string{"wavehouse2", "WaveHouse", "wavehouse "}})),
		"audience object":      sign(rs, key, nil, claims(jwt.MapClaims{"aud": map[string]any{"wavehouse": true}})),
		"expired":              sign(rs, key, nil, claims(jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()})),
		"expired, another key": sign(rs, own, nil, claims(jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()})),
	}
	for _, id := range []any{"../../../../dev/null", "a' OR '1'='1", "a\x00", " a", "A", "", 7, nil, []string{"a"}, map[string]any{"a": 1}, "file:///etc/passwd", theirs.URL, "a;id", "`id`", strings.Repeat("a", 4000)} {
		bad[fmt.Sprintf("kid %.40q", id)] = sign(hs, []byte{}, map[string]any{"kid": id}, claims(nil))
	}
	for name, text := range bad {
		nobody(t, s, name, text)
	}
	assert.Zero(t, asked.Load(), "a token never says where keys come from")
}

// A token in the URL is for streams; elsewhere it is not looked at.
func TestAdversaryTokenInTheURL(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{policies: halfPublic}, `{"event_id":"1","page":"/","secret":"s3"}`)
	admin := token(t, jwt.MapClaims{"role": "admin"})
	s.writeFile("pipes.json", `{"pipes":[{"name":"p","sql":"SELECT secret FROM pages","allowed_roles":["analyst"]}]}`)
	require.Equal(t, http.StatusOK, s.reload().status)
	for _, name := range []string{"token", "Token", "access_token", "jwt", "authorization", "operator_key", "key"} {
		for _, value := range []string{admin, operatorKey} {
			pair := name + "=" + value
			for _, a := range []answer{
				s.do(http.MethodPost, "/v1/query?table=pages&"+pair, `{"columns":["secret"]}`), s.do(http.MethodGet, "/v1/pipes/p?"+pair, ""),
				s.do(http.MethodPost, "/v1/ops/query?"+pair, `{"sql":"SELECT 1"}`), s.do(http.MethodGet, "/v1/ops/tenants?"+pair, ""),
				s.do(http.MethodPost, "/v1/ops/settings/reload?"+pair, ""), s.do(http.MethodPost, "/v1/ingest?table=pages&"+pair, `{"event_id":"x"}`, "Content-Type", "application/json"),
			} {
				assert.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized, http.StatusBadRequest}, a.status, "%s: %s", name, a.body)
				assert.NotContains(t, a.body, "s3")
				assert.NotContains(t, a.body, value)
			}
		}
	}
	assert.Equal(t, 1, s.ch.Count(t, "pages"))
	// A stream takes a token there, and the operator key in no form.
	for _, query := range []string{"token=" + operatorKey, "operator_key=" + operatorKey, "access_token=" + admin} {
		_, err := s.tryListen("table=closed&"+query, "")
		assert.Error(t, err, query)
	}
}
