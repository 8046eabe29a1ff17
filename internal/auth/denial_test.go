package auth_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/policy"
)

func assertDenial(t *testing.T, err error, status int, code string) {
	t.Helper()
	var d *auth.Denial
	require.ErrorAs(t, err, &d)
	assert.Equal(t, status, d.Status)
	assert.Equal(t, code, d.Code)
	assert.NotEmpty(t, d.Message)
}

func TestDenials(t *testing.T) {
	p := snapshot(t).Policy
	noDefault, faults, _ := policy.Compile(&policy.Document{Tables: map[string]policy.TableDocument{}}, nil)
	require.Empty(t, faults)
	expired := fmt.Errorf("since yesterday: %w", auth.ErrTokenExpired)
	cases := []struct {
		name   string
		id     auth.Identity
		policy *policy.Policy
		status int
		code   string
	}{
		{"a role without a grant", auth.Identity{Role: "public"}, p, 403, auth.CodeForbidden},
		{"an unknown role", auth.Identity{Role: "ghost"}, p, 403, auth.CodeForbidden},
		{"the default role without a grant", auth.Identity{}, p, 403, auth.CodeForbidden},
		{"no role and no default", auth.Identity{}, noDefault, 403, auth.CodeNoRole},
		{"a bad token", auth.Identity{TokenErr: auth.ErrTokenInvalid}, p, 401, auth.CodeTokenInvalid},
		{"an expired token", auth.Identity{TokenErr: expired}, p, 401, auth.CodeTokenExpired},
		{"a bad token and no default", auth.Identity{TokenErr: auth.ErrTokenInvalid}, noDefault, 401, auth.CodeTokenInvalid},
		{"no policy", auth.Identity{Role: "viewer"}, nil, 403, auth.CodeForbidden},
		{"no policy, a bad token", auth.Identity{TokenErr: auth.ErrTokenInvalid}, nil, 401, auth.CodeTokenInvalid},
		{"no policy, the operator's key", auth.Identity{Operator: true}, nil, 403, auth.CodeForbidden},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.id.SelectGrant(c.policy, "closed")
			assertDenial(t, err, c.status, c.code)
			_, err = c.id.InsertGrant(c.policy, "closed")
			assertDenial(t, err, c.status, c.code)
		})
	}
}

func TestDenialKeepsItsReason(t *testing.T) {
	_, err := auth.Identity{}.SelectGrant(nil, "t")
	assert.ErrorIs(t, err, policy.ErrNoPolicy)
	assert.EqualError(t, err, policy.ErrNoPolicy.Error())
	assert.ErrorIs(t, auth.Identity{TokenErr: auth.ErrTokenExpired}.Deny(errors.New("no")), auth.ErrTokenExpired)
}

func TestGrants(t *testing.T) {
	p := snapshot(t).Policy
	for name, id := range map[string]auth.Identity{
		"a role": {Role: "viewer"}, "the admin role": {Role: "admin"}, "the operator": {Operator: true},
	} {
		_, err := id.SelectGrant(p, "closed")
		assert.NoError(t, err, name)
		_, err = id.InsertGrant(p, "closed")
		assert.NoError(t, err, name)
	}
}

func TestOps(t *testing.T) {
	p := snapshot(t).Policy
	assert.NoError(t, auth.Identity{Operator: true}.Ops(nil), "the key works without a policy")
	assert.NoError(t, auth.Identity{Operator: true}.Ops(p))
	assert.NoError(t, auth.Identity{Role: "admin"}.Ops(p))
	assertDenial(t, auth.Identity{Role: "viewer"}.Ops(p), 403, auth.CodeForbidden)
	assertDenial(t, auth.Identity{}.Ops(p), 403, auth.CodeForbidden)
	assertDenial(t, auth.Identity{Role: "admin"}.Ops(nil), 403, auth.CodeForbidden)
	assertDenial(t, auth.Identity{}.Ops(nil), 403, auth.CodeNoRole)
}
