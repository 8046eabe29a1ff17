package auth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/wavehouse/wavehouse/internal/claim"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// latestStart is the latest nbf that is taken for a time, in seconds: one that
// does not fit in a clock would wrap around and be past.
const latestStart = 1 << 40

// checkClaims refuses the claims of a token that is otherwise in order when
// they are more than one JSON object, which others might read otherwise, or
// when their nbf never comes.
func checkClaims(text string, claims jwt.MapClaims) error {
	parts := strings.Split(text, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || !json.Valid(payload) {
		return fmt.Errorf("%w: it is malformed", ErrTokenInvalid)
	}
	if start, ok := claims["nbf"].(json.Number); ok {
		// A number out of range is an infinity.
		if seconds, _ := start.Float64(); seconds > latestStart {
			return fmt.Errorf("%w: it is not valid yet", ErrTokenInvalid)
		}
	}
	return nil
}

// lifetime returns the moment from which a token no longer counts, the leeway
// included; zero is never. The error is that of a token which the settings do not
// take for as long as it says.
func lifetime(claims jwt.MapClaims, c settings.Auth, now time.Time) (expires time.Time, err error) {
	exp, err := claims.GetExpirationTime()
	switch {
	case err != nil || exp == nil && c.RequireExp:
		return time.Time{}, fmt.Errorf("%w: it has no exp", ErrTokenInvalid)
	case exp != nil:
		expires = exp.Add(leeway)
	}
	if c.MaxTokenAge == 0 {
		return expires, nil
	}
	iat, err := claims.GetIssuedAt()
	if err != nil || iat == nil {
		return time.Time{}, fmt.Errorf("%w: it has no iat", ErrTokenInvalid)
	}
	if iat.After(now.Add(leeway)) {
		return time.Time{}, fmt.Errorf("%w: it is not valid yet", ErrTokenInvalid)
	}
	aged := iat.Add(c.MaxTokenAge + leeway)
	if !now.Before(aged) {
		return time.Time{}, ErrTokenExpired
	}
	if expires.IsZero() || aged.Before(expires) {
		expires = aged
	}
	return expires, nil
}

// names reports whether the claim is the tenant's id, or a list that holds it. No
// path asks for none.
func names(claims map[string]any, path claim.Path, id tenant.ID) bool {
	if path == "" {
		return true
	}
	value, _ := path.Lookup(claims)
	if list, several := value.([]any); several {
		return slices.Contains(list, any(id.String()))
	}
	return value == any(id.String())
}

// role reads the role claim; anything but a string is no role.
func role(claims map[string]any, path claim.Path) string {
	value, _ := path.Lookup(claims)
	name, _ := value.(string)
	return name
}

// subject reads the claim that tells callers apart: a string or a number.
func subject(claims map[string]any, path claim.Path) string {
	switch value, _ := path.Lookup(claims); value := value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	}
	return ""
}
