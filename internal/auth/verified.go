package auth

import (
	"crypto/sha256"
	"time"

	"github.com/wavehouse/wavehouse/internal/memo"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Bounds of the verified tokens that are remembered.
const (
	maxVerifiedCost = 32 << 20 // bytes, as estimated
	// maxVerifiedBytes is the longest token that is remembered: a long one is
	// rare and would push many others out.
	maxVerifiedBytes = 4 << 10
	verifiedStripes  = 16
)

// tokenName stands for a token of a tenant. It is a hash, so that what the
// process remembers cannot be used as a token.
type tokenName struct {
	tenant tenant.ID
	sum    [sha256.Size]byte
}

func nameOf(id tenant.ID, text string) tokenName {
	return tokenName{tenant: id, sum: sha256.Sum256([]byte(text))}
}

// verifiedToken is a token that was found to be valid, and by what: other
// settings or other keys have to verify it anew.
type verifiedToken struct {
	identity   Identity
	auth       settings.Auth
	generation uint64
}

// verifiedCost estimates the memory of a token's claims from its length.
func verifiedCost(text string) int { return 512 + 8*len(text) }

// verifiedTokens remembers valid tokens, so that a caller's next request costs
// a hash and not a signature. It is bounded by the estimated memory.
type verifiedTokens [verifiedStripes]*memo.Memo[tokenName, verifiedToken]

func newVerifiedTokens(limit int) *verifiedTokens {
	v := &verifiedTokens{}
	for i := range v {
		v[i] = memo.New[tokenName, verifiedToken](limit / verifiedStripes)
	}
	return v
}

// get returns who the token says is calling, if it was verified by the same
// settings and keys and has not expired since.
func (v *verifiedTokens) get(name tokenName, auth settings.Auth, generation uint64, now time.Time) (Identity, bool) {
	entry, found := v[name.sum[0]%verifiedStripes].Get(name)
	expires := entry.identity.Expires
	switch {
	case !found, entry.generation != generation, entry.auth != auth:
		return Identity{}, false
	case !expires.IsZero() && !now.Before(expires):
		return Identity{}, false
	}
	return entry.identity, true
}

// put remembers a token that costs so much.
func (v *verifiedTokens) put(name tokenName, entry verifiedToken, cost int) {
	if cost <= verifiedCost("")+8*maxVerifiedBytes {
		v[name.sum[0]%verifiedStripes].PutCost(name, entry, cost)
	}
}
