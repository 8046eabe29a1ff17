package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A page that is left has navigator.sendBeacon: a text, no header of its own,
// no preflight, and nobody who reads the answer.
func TestBeaconsAreTakenWhereTheTenantAllowsThem(t *testing.T) {
	t.Parallel()
	const beacon = "text/plain;charset=UTF-8"
	s := start(t, options{
		policies: `{"default_role":"public","tables":{"pages":{"writer":{"insert":{"check":{"org":{"_eq":"{{ jwt.org }}"}}}}}}}`,
	}, pagesTable)
	token := signed(t, jwt.SigningMethodHS256, []byte(jwtSecret), jwt.MapClaims{"role": "writer", "org": "birch"})
	post := func(contentType, query string) answer {
		a, err := s.try(http.MethodPost, "/v1/ingest?table=pages"+query, strings.NewReader(`{"event_id":"b1","page":"/left"}`),
			"Content-Type", contentType, "Origin", "https://shop.example.com")
		require.NoError(t, err)
		return a
	}
	refused(t, post("application/json", "&token="+token), http.StatusForbidden, "auth.forbidden")

	s.o.config = map[string]string{"ingest": `{"flush":{"max_wait":"50ms"},"beacon":true}`}
	s.writeSettings()
	s.eventually(func() string {
		a := post(beacon, "&token="+token)
		return unless(a.status == http.StatusOK, a.body)
	})
	a := post(beacon, "&token="+token)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
	s.eventually(func() string {
		orgs := s.ch.Rows(t, "SELECT DISTINCT org FROM pages")
		return unless(len(orgs) == 1 && orgs[0][0] == "birch", "the row of the token's org is not stored")
	})
	refused(t, post(beacon, ""), http.StatusForbidden, "auth.forbidden")
	refused(t, post(beacon, "&token=x"), http.StatusUnauthorized, "auth.token_invalid")
	assert.NotContains(t, s.logs.String(), token)

	query, err := s.try(http.MethodPost, "/v1/query?table=pages&token="+token, strings.NewReader(`{}`), "Content-Type", "application/json")
	require.NoError(t, err)
	refused(t, query, http.StatusForbidden, "auth.forbidden")
}
