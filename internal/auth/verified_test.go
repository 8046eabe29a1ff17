package auth

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/settings"
)

func TestVerifiedTokensAreForgotten(t *testing.T) {
	at := time.Unix(1000, 0)
	names := settings.Auth{RoleClaim: "role"}
	v := newVerifiedTokens(1 << 20)
	name := nameOf("0", "a token")
	v.put(name, verifiedToken{identity: Identity{Role: "viewer", Expires: at}, auth: names, generation: 3}, 100)

	id, ok := v.get(name, names, 3, at.Add(-1))
	assert.True(t, ok)
	assert.Equal(t, "viewer", id.Role)
	for what, found := range map[string]bool{
		"with other keys":     got(v, name, names, 4, at.Add(-1)),
		"with older keys":     got(v, name, names, 2, at.Add(-1)),
		"by the secret":       got(v, name, names, 0, at.Add(-1)),
		"when it expires":     got(v, name, names, 3, at),
		"with another issuer": got(v, name, settings.Auth{RoleClaim: "role", Issuer: "x"}, 3, at.Add(-1)),
		"with another claim":  got(v, name, settings.Auth{RoleClaim: "groups"}, 3, at.Add(-1)),
		"at another tenant":   got(v, nameOf("1", "a token"), names, 3, at.Add(-1)),
		"with another text":   got(v, nameOf("0", "a tokeN"), names, 3, at.Add(-1)),
	} {
		assert.False(t, found, what)
	}
}

func got(v *verifiedTokens, name tokenName, names settings.Auth, generation uint64, now time.Time) bool {
	_, ok := v.get(name, names, generation, now)
	return ok
}

func TestVerifiedTokensAreBounded(t *testing.T) {
	const limit = 1 << 20
	v := newVerifiedTokens(limit)
	often := nameOf("0", "asked for all the time")
	v.put(often, verifiedToken{}, 1000)
	for i := range 20_000 {
		v.put(nameOf("0", fmt.Sprint(i)), verifiedToken{}, 1000)
		assert.True(t, got(v, often, settings.Auth{}, 0, time.Time{}), "what is asked for stays: %d", i)
	}
	total := 0
	for _, stripe := range v {
		total += 1000 * stripe.Len()
	}
	assert.LessOrEqual(t, total, limit+verifiedStripes*1000)
	assert.Greater(t, total, limit/4)

	long := nameOf("0", "long")
	v.put(long, verifiedToken{}, verifiedCost(strings.Repeat("x", maxVerifiedBytes+1)))
	assert.False(t, got(v, long, settings.Auth{}, 0, time.Time{}), "a long token is verified every time")
}
