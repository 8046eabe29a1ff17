package integration

import (
	"net/http"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A dot in a path is a step. A claim whose name spells the path, which a user
// may have chosen, stands for nothing: not for the role, a row or a parameter.
func TestAClaimThatIsNamedLikeAPathIsNotThePath(t *testing.T) {
	t.Parallel()
	s := start(t, options{
		config:   map[string]string{"auth": `{"role_claim":"app_metadata.role"}`},
		policies: `{"tables":{"pages":{"viewer":{"select":{"filter":{"org":{"_eq":"{{ jwt.app_metadata.org }}"}}}},"analyst":{"select":{"filter":{"org":{"_eq":"{{ jwt.\"https://x/y.z\" }}"}}}}}}}`,
	}, pagesTable, `INSERT INTO pages (event_id, org) VALUES ('1','birch'), ('2','cedar')`)
	s.adopt(`{"pipes":[{"name":"mine","sql":"SELECT event_id FROM pages WHERE org = {{ jwt.app_metadata.org }}","allowed_roles":["viewer"]},
		{"name":"ours","sql":"SELECT event_id FROM pages WHERE org = {{ jwt.\"https://x/y.z\" }}","allowed_roles":["analyst"]}]}`)
	bearer := func(claims jwt.MapClaims) []string { return []string{"Authorization", "Bearer " + token(t, claims)} }
	const document = `{"columns":["event_id"]}`

	forged := bearer(jwt.MapClaims{"app_metadata.role": "admin", "app_metadata.org": "cedar", "app_metadata": map[string]any{"role": "viewer", "org": "birch"}})
	refused(t, s.do(http.MethodGet, "/v1/ops/schema", "", forged...), http.StatusForbidden, "auth.forbidden")
	assert.JSONEq(t, `[{"event_id":"1"}]`, s.query("pages", document, forged...).body)
	assert.Equal(t, `[{"event_id":"1"}]`, s.pipeRows("mine", forged...))

	absent := bearer(jwt.MapClaims{"app_metadata.role": "admin"})
	refused(t, s.do(http.MethodGet, "/v1/ops/schema", "", absent...), http.StatusForbidden, "auth.no_role")
	refused(t, s.query("pages", document, absent...), http.StatusForbidden, "auth.no_role")

	url := bearer(jwt.MapClaims{"https://x/y.z": "cedar", "https://x/y": map[string]any{"z": "birch"}, "app_metadata": map[string]any{"role": "analyst"}})
	a := s.query("pages", document, url...)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.JSONEq(t, `[{"event_id":"2"}]`, a.body)
	assert.Equal(t, `[{"event_id":"2"}]`, s.pipeRows("ours", url...))
}
