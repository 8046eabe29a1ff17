package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// keys are what one answer of a key server held. They are immutable.
type keys struct {
	// generation is unique among all keys of the process, so that what was
	// verified with others is not taken for verified with these.
	generation uint64
	sum        [sha256.Size]byte // of the answer
	byID       map[string][]publicKey
	all        []publicKey
}

func newKeys(generation uint64, sum [sha256.Size]byte, list []publicKey) *keys {
	k := &keys{generation: generation, sum: sum, byID: make(map[string][]publicKey, len(list)), all: list}
	for _, key := range list {
		if key.id != "" {
			k.byID[key.id] = append(k.byID[key.id], key)
		}
	}
	return k
}

// errUnknownKey: no key of the set could have signed the token.
var errUnknownKey = errors.New("no such key")

// find returns the keys that may verify the token: those that it names, or all
// of its kind when it names none. What else its header says of keys (jwk, jku,
// x5c, x5u) is its sender's word and is not looked at.
func (k *keys) find(t *jwt.Token) (any, error) {
	candidates := k.all
	if id, named := t.Header["kid"]; named {
		name, _ := id.(string)
		candidates = k.byID[name]
	}
	var set jwt.VerificationKeySet
	for _, c := range candidates {
		if (c.algorithm == "" || c.algorithm == t.Method.Alg()) && fits(t.Method.Alg(), c.key) {
			set.Keys = append(set.Keys, c.key)
		}
	}
	if len(set.Keys) == 0 {
		return nil, errUnknownKey
	}
	return set, nil
}

// keySet is the key set behind one URL, shared by the tenants that name it.
type keySet struct {
	url string
	// keys is nil until the first fetch that succeeded.
	keys atomic.Pointer[keys]

	// The rest is guarded by the keyring.
	tenants  []tenant.ID // sorted
	due      time.Time   // when to fetch next
	started  time.Time   // when the last fetch began
	failures int         // in a row
	// ended is closed when the fetch that runs or comes next has ended.
	ended chan struct{}
	// cancel ends the fetch that runs; nil when none does.
	cancel context.CancelFunc
}
