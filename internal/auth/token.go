package auth

import (
	"errors"
	"fmt"
	"strings"
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

// token verifies a token for the tenant and reads the role in it.
func (a *Authenticator) token(text string, snap *settings.Snapshot) Identity {
	if snap == nil || len(a.secret) == 0 || text == "" || len(text) > maxTokenBytes {
		return Identity{TokenErr: ErrTokenInvalid}
	}
	claims := jwt.MapClaims{}
	if _, err := a.parser(snap.Config.Auth).ParseWithClaims(text, claims, a.key); err != nil {
		return Identity{TokenErr: tokenError(err)}
	}
	id := Identity{Claims: claims, Role: role(claims, snap.Config.Auth.RoleClaim)}
	if exp, err := claims.GetExpirationTime(); err == nil && exp != nil {
		id.Expires = exp.Add(leeway)
	}
	return id
}

// parser pins the algorithms to the family of the verifier: the header of a
// token is its sender's to write and chooses nothing.
func (a *Authenticator) parser(c settings.Auth) *jwt.Parser {
	options := []jwt.ParserOption{
		jwt.WithValidMethods([]string{"HS256", "HS384", "HS512"}),
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

// key returns the secret, after the algorithm was checked. A token may demand by
// "crit" that its reader understand an extension; we understand none.
func (a *Authenticator) key(t *jwt.Token) (any, error) {
	if _, demands := t.Header["crit"]; demands {
		return nil, errors.New("the token's header has critical extensions")
	}
	return a.secret, nil
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

// role reads the role claim; anything but a string is no role.
func role(claims map[string]any, path string) string {
	value, _ := lookup(claims, path)
	name, _ := value.(string)
	return name
}

// lookup follows a dotted path into the claims. A name may itself hold dots, as
// those that are URLs do: the longest name that is there is taken first.
func lookup(claims map[string]any, path string) (any, bool) {
	if value, ok := claims[path]; ok {
		return value, true
	}
	for end := strings.LastIndexByte(path, '.'); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		inner, ok := claims[path[:end]].(map[string]any)
		if !ok {
			continue
		}
		if value, ok := lookup(inner, path[end+1:]); ok {
			return value, true
		}
	}
	return nil, false
}
