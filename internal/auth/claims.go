package auth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"
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
