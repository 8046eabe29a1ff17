package auth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/wavehouse/wavehouse/internal/settings"
)

const (
	// leeway forgives clocks that differ.
	leeway = 30 * time.Second
	// maxTokenBytes bounds the work that an unproven token can ask for.
	maxTokenBytes = 16 << 10
)

// verifier is how the tokens of a tenant are verified: by the secret, or by the
// keys of its set.
type verifier struct {
	keys   *keys // nil is the secret
	secret []byte
}

// generation changes with the keys, or with the secret.
func (v verifier) generation() uint64 {
	if v.keys == nil {
		sum := sha256.Sum256(v.secret)
		return binary.BigEndian.Uint64(sum[:])
	}
	return v.keys.generation
}

func (v verifier) algorithms() []string {
	if v.keys == nil {
		return []string{"HS256", "HS384", "HS512"}
	}
	return publicAlgorithms()
}

// find returns what the token is verified by, once its algorithm was checked. A
// token may demand by "crit" that its reader understand an extension; we
// understand none.
func (v verifier) find(t *jwt.Token) (any, error) {
	if _, demands := t.Header["crit"]; demands {
		return nil, errors.New("the token's header has critical extensions")
	}
	if v.keys == nil {
		return v.secret, nil
	}
	return v.keys.find(t)
}

// token verifies a token for the tenant and reads the role in it. The error is
// ErrVerifierPending.
func (a *Authenticator) token(ctx context.Context, text string, snap *settings.Snapshot) (Identity, error) {
	if snap == nil || text == "" {
		return Identity{TokenErr: ErrTokenInvalid}, nil
	}
	if len(text) > maxTokenBytes {
		return Identity{TokenErr: fmt.Errorf("%w: it is over %d KiB", ErrTokenInvalid, maxTokenBytes>>10)}, nil
	}
	if snap.Config.Auth.JWKSURL != "" {
		return a.byKeySet(ctx, text, snap)
	}
	secret := a.secret(snap.Tenant)
	if secret == "" {
		return Identity{TokenErr: ErrTokenInvalid}, nil
	}
	id, _ := a.verify(text, snap, verifier{secret: []byte(secret)})
	return id, nil
}

// byKeySet verifies a token by the keys behind the tenant's URL. One whose key
// is not among them may be signed by a new one, so they are fetched again.
func (a *Authenticator) byKeySet(ctx context.Context, text string, snap *settings.Snapshot) (Identity, error) {
	set := a.keyring.set(snap.Config.Auth.JWKSURL)
	if set == nil {
		return Identity{}, ErrVerifierPending
	}
	known := set.keys.Load()
	if known == nil {
		return Identity{}, ErrVerifierPending
	}
	id, unknown := a.verify(text, snap, verifier{keys: known})
	if !unknown {
		return id, nil
	}
	if newer := a.keyring.newer(ctx, set, known); newer != known {
		id, _ = a.verify(text, snap, verifier{keys: newer})
	}
	return id, nil
}

// verify returns who the token says is calling. unknown means that none of the
// keys could have signed it, so that others might have.
func (a *Authenticator) verify(text string, snap *settings.Snapshot, v verifier) (id Identity, unknown bool) {
	name, generation, auth := nameOf(snap.Tenant, text), v.generation(), snap.Config.Auth
	if id, ok := a.verified.get(name, auth, generation, a.now()); ok {
		return id, false
	}
	claims := jwt.MapClaims{}
	token, err := a.parser(auth, v.algorithms()).ParseWithClaims(text, claims, v.find)
	if err != nil {
		return Identity{TokenErr: tokenError(err)}, isUnknown(token, err)
	}
	if err := checkClaims(text, claims); err != nil {
		return Identity{TokenErr: err}, false
	}
	if !names(claims, auth.TenantClaim, snap.Tenant) {
		return Identity{TokenErr: fmt.Errorf("%w: it is not this tenant's", ErrTokenInvalid)}, false
	}
	expires, err := lifetime(claims, auth, a.now())
	if err != nil {
		return Identity{TokenErr: err}, false
	}
	id = Identity{Claims: claims, Role: role(claims, auth.RoleClaim), Subject: subject(claims, auth.SubjectClaim), Expires: expires}
	a.verified.put(name, verifiedToken{identity: id, auth: auth, generation: generation}, verifiedCost(text))
	return id, false
}

// isUnknown: the token names a key that is not there, or names none and no key
// of the set verifies it.
func isUnknown(token *jwt.Token, err error) bool {
	if errors.Is(err, errUnknownKey) {
		return true
	}
	if token == nil || !errors.Is(err, jwt.ErrTokenSignatureInvalid) {
		return false
	}
	_, named := token.Header["kid"]
	// An algorithm of the other family fails before any key is looked for.
	return !named && slices.Contains(publicAlgorithms(), token.Method.Alg())
}

// parser pins the algorithms to the family of the verifier: the header of a
// token is its sender's to write and chooses nothing.
func (a *Authenticator) parser(c settings.Auth, algorithms []string) *jwt.Parser {
	options := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(a.now),
		jwt.WithJSONNumber(),
	}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	return jwt.NewParser(options...)
}

// tokenError says what is wrong with a token without repeating any of it.
func tokenError(err error) error {
	switch {
	// A token with several faults is expired only when all else is in order.
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable):
		return fmt.Errorf("%w: its signature does not verify", ErrTokenInvalid)
	case errors.Is(err, jwt.ErrTokenMalformed):
		return fmt.Errorf("%w: it is malformed", ErrTokenInvalid)
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return fmt.Errorf("%w: wrong issuer", ErrTokenInvalid)
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return fmt.Errorf("%w: wrong audience", ErrTokenInvalid)
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return fmt.Errorf("%w: it is not valid yet", ErrTokenInvalid)
	case errors.Is(err, jwt.ErrTokenExpired):
		return ErrTokenExpired
	}
	return ErrTokenInvalid
}
