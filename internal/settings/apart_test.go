package settings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// A token that was made for one tenant must say so to every other that is
// verified by the same key.
func TestTenantsThatWouldTakeEachOthersTokens(t *testing.T) {
	shared := func(tenant.ID) string { return "one" }
	for name, c := range map[string]struct {
		auth map[tenant.ID]Auth
		key  TokenKey
		want []tenant.ID
	}{
		"one secret":                 {map[tenant.ID]Auth{"a": {}, "b": {}}, shared, []tenant.ID{"a", "b"}},
		"alone":                      {map[tenant.ID]Auth{"a": {}}, shared, nil},
		"a claim each":               {map[tenant.ID]Auth{"a": {TenantClaim: "t"}, "b": {TenantClaim: "t"}}, shared, nil},
		"one claim":                  {map[tenant.ID]Auth{"a": {TenantClaim: "t"}, "b": {}}, shared, []tenant.ID{"b"}},
		"own audiences":              {map[tenant.ID]Auth{"a": {Audience: "a"}, "b": {Audience: "b"}}, shared, nil},
		"one audience":               {map[tenant.ID]Auth{"a": {Audience: "x"}, "b": {Audience: "x"}, "c": {Audience: "c"}}, shared, []tenant.ID{"a", "b"}},
		"no audience":                {map[tenant.ID]Auth{"a": {Audience: "x"}, "b": {}}, shared, []tenant.ID{"b"}},
		"own issuers, one audience":  {map[tenant.ID]Auth{"a": {Audience: "x", Issuer: "a"}, "b": {Audience: "x", Issuer: "b"}}, shared, nil},
		"secrets of their own":       {map[tenant.ID]Auth{"a": {}, "b": {}}, func(id tenant.ID) string { return string(id) }, nil},
		"no secret":                  {map[tenant.ID]Auth{"a": {}, "b": {}}, func(tenant.ID) string { return "" }, nil},
		"one key set":                {map[tenant.ID]Auth{"a": {JWKSURL: "https://k"}, "b": {JWKSURL: "https://k"}, "c": {JWKSURL: "https://c"}}, shared, []tenant.ID{"a", "b"}},
		"a key set and a secret":     {map[tenant.ID]Auth{"a": {JWKSURL: "https://k"}, "b": {}}, shared, nil},
		"one audience, another's is": {map[tenant.ID]Auth{"a": {Audience: "x", Issuer: "i"}, "b": {Audience: "y", Issuer: "i"}}, shared, nil},
	} {
		snapshots := map[tenant.ID]*Snapshot{}
		for id, auth := range c.auth {
			snapshots[id] = &Snapshot{Tenant: id, Config: &Config{Auth: auth}}
		}
		var got []tenant.ID
		for _, id := range []tenant.ID{"a", "b", "c"} {
			if f, ok := Apart(snapshots, c.key)[id]; ok {
				got = append(got, id)
				assert.Contains(t, f.Message, "auth.tenant_claim")
			}
		}
		assert.Equal(t, c.want, got, name)
	}
}

func TestARegistryRejectsTenantsThatAreNotToldApart(t *testing.T) {
	dir := t.TempDir()
	write := func(id, auth string) {
		folder := files{"roles.json": `{"roles": []}`, "policies.json": "{}", "pipes.json": "{}", "config.json": `{"auth": ` + auth + `}`}.dir(t)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, id)))
		require.NoError(t, os.Rename(folder, filepath.Join(dir, id)))
	}
	write("a", `{"tenant_claim": "t"}`)
	write("b", `{}`)
	secret := "one"
	r, err := NewRegistry(dir, Options{Keys: func() TokenKey { return func(tenant.ID) string { return secret } }})
	require.NoError(t, err)
	served := func(id tenant.ID) bool {
		_, err := r.Get(id)
		return err == nil
	}
	assert.True(t, served("a"))
	assert.False(t, served("b"))
	refused := errorsOf(r.Findings("b"))
	require.Len(t, refused, 1)
	assert.Equal(t, "b/config.json: error: auth: a token of tenant a would count for tenant b, since both are verified by auth.jwt_secret:"+
		" set auth.tenant_claim, an auth.audience or auth.issuer that no other tenant has, or give the tenant a key of its own"+
		" (auth.jwt_secrets_file of the boot configuration, or auth.jwks_url)", refused[0])

	// What others are decides anew each time, also where the folder is the same.
	secret = ""
	assert.True(t, r.Reload(t.Context(), nil).Adopted)
	assert.True(t, served("b"))
	secret = "one"
	assert.False(t, r.Reload(t.Context(), nil).Adopted)
	assert.True(t, served("a"))
	assert.False(t, served("b"))
	id := tenant.ID("b")
	assert.False(t, r.Reload(t.Context(), &id).Adopted)
	write("b", `{"audience": "b"}`)
	assert.True(t, r.Reload(t.Context(), &id).Adopted)
	assert.True(t, served("b"))
	id = "a"
	write("a", `{"audience": "b"}`)
	assert.False(t, r.Reload(t.Context(), &id).Adopted)
	assert.True(t, served("b"), "one that is reloaded alone costs no other")
}
