package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const boundPolicy = `{"tables":{"pages":{"viewer":{"select":{"filter":{"page":{"_neq":"{{ jwt.sub }}"}}}}}}}`

// A rule that is remembered is that of the same token, policy and table.
func TestRowRulesAreRememberedForTheirCallersAlone(t *testing.T) {
	rig := newRig(t, boundPolicy)
	s := NewServer(rig.options)
	first := rig.tables["pages"].Record
	other := pagesTable().Record
	bind := func(claims map[string]any, snapshot *settings.Snapshot, altered bool) string {
		t.Helper()
		c := &request{tenant: tenant.Default, settings: snapshot, identity: auth.Identity{Role: "viewer", Claims: claims}}
		grant, err := c.identity.SelectGrant(snapshot.Policy, "pages")
		require.NoError(t, err)
		table := first
		if altered {
			table = other
		}
		bound := s.bindAgain(httptest.NewRequest(http.MethodPost, "/", nil), c, grant, "pages", table)
		require.Equal(t, grant.Bind(claims, table).Fingerprint(), bound.Fingerprint(), "as if it were bound anew")
		again := s.bindAgain(httptest.NewRequest(http.MethodPost, "/", nil), c, grant, "pages", table)
		assert.Same(t, bound, again)
		return bound.Fingerprint()
	}
	snapshot, err := rig.options.Settings.Get(tenant.Default)
	require.NoError(t, err)
	one, two := map[string]any{"sub": "one"}, map[string]any{"sub": "two"}
	mine := bind(one, snapshot, false)
	assert.NotEqual(t, mine, bind(two, snapshot, false))
	assert.Equal(t, mine, bind(map[string]any{"sub": "one"}, snapshot, false), "equal claims of another token")
	bind(one, snapshot, true)
	assert.Equal(t, 4, s.bounds.Len())

	changed := newRig(t, strings.Replace(boundPolicy, "_neq", "_eq", 1))
	next, err := changed.options.Settings.Get(tenant.Default)
	require.NoError(t, err)
	assert.NotEqual(t, mine, bind(one, next, false), "a policy edit takes effect on the next request")
}

// What cannot be applied, and what is large, is not kept; what is kept is
// bounded.
func TestRowRulesThatAreNotRemembered(t *testing.T) {
	rig := newRig(t, boundPolicy)
	s := NewServer(rig.options)
	snapshot, err := rig.options.Settings.Get(tenant.Default)
	require.NoError(t, err)
	bind := func(claims map[string]any, token string) {
		c := &request{tenant: tenant.Default, settings: snapshot, identity: auth.Identity{Role: "viewer", Claims: claims}}
		grant, err := c.identity.SelectGrant(snapshot.Policy, "pages")
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Authorization", token)
		s.bindAgain(r, c, grant, "pages", rig.tables["pages"].Record)
	}
	bind(nil, "")
	bind(map[string]any{"other": "x"}, "Bearer short")
	bind(map[string]any{"sub": "x"}, "Bearer "+strings.Repeat("x", maxBoundToken))
	assert.Zero(t, s.bounds.Len())
	for i := range maxBounds + 10 {
		bind(map[string]any{"sub": fmt.Sprint(i)}, "Bearer short")
		require.LessOrEqual(t, s.bounds.Len(), maxBounds)
	}
}
