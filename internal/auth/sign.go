package auth

import (
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// Sign makes a token (HS256) of claims that an Authenticator with the same secret
// verifies.
func Sign(claims map[string]any, secret string) (string, error) {
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(claims)).SignedString([]byte(secret))
	if err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return text, nil
}
