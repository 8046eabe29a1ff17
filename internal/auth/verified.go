package auth

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Bounds of the verified tokens that are remembered.
const (
	maxVerifiedCost = 32 << 20 // bytes, as estimated
	// maxVerifiedBytes is the longest token that is remembered: a long one is
	// rare and would push many others out.
	maxVerifiedBytes = 4 << 10
	verifiedShards   = 16
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
	cost       int
}

// verifiedCost estimates the memory of a token's claims from its length.
func verifiedCost(text string) int { return 512 + 8*len(text) }

// verifiedTokens remembers valid tokens, so that a caller's next request costs
// a hash and not a signature. It is bounded by the estimated memory.
type verifiedTokens struct {
	shards [verifiedShards]verifiedShard
}

// verifiedShard holds two generations of entries. When the young one is full
// the old one is dropped, and with it what was not asked for since it was
// young.
type verifiedShard struct {
	limit int // of the cost of one generation

	mu         sync.RWMutex
	young, old map[tokenName]verifiedToken
	cost       int // of young
}

func newVerifiedTokens(limit int) *verifiedTokens {
	v := &verifiedTokens{}
	for i := range v.shards {
		v.shards[i].limit = limit / verifiedShards / 2
		v.shards[i].young = map[tokenName]verifiedToken{}
	}
	return v
}

func (v *verifiedTokens) shard(name tokenName) *verifiedShard {
	return &v.shards[name.sum[0]%verifiedShards]
}

// get returns who the token says is calling, if it was verified by the same
// settings and keys and has not expired since.
func (v *verifiedTokens) get(name tokenName, auth settings.Auth, generation uint64, now time.Time) (Identity, bool) {
	s := v.shard(name)
	s.mu.RLock()
	entry, young := s.young[name]
	found := young
	if !young {
		entry, found = s.old[name]
	}
	s.mu.RUnlock()
	expires := entry.identity.Expires
	switch {
	case !found, entry.generation != generation, entry.auth != auth:
		return Identity{}, false
	case !expires.IsZero() && !now.Before(expires):
		return Identity{}, false
	case !young:
		v.put(name, entry)
	}
	return entry.identity, true
}

// put remembers a token.
func (v *verifiedTokens) put(name tokenName, entry verifiedToken) {
	if entry.cost > verifiedCost("")+8*maxVerifiedBytes {
		return
	}
	s := v.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cost += entry.cost - s.young[name].cost
	s.young[name] = entry
	if s.cost > s.limit {
		s.old, s.young, s.cost = s.young, map[tokenName]verifiedToken{}, 0
	}
}
