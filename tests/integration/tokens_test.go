package integration

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// token signs claims with the secret that the servers here know.
func token(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	return signed(t, jwt.SigningMethodHS256, []byte(jwtSecret), claims)
}

func signed(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	t.Helper()
	text, err := jwt.NewWithClaims(method, claims).SignedString(key)
	require.NoError(t, err)
	return text
}

// as is the header pair of a caller with the role.
func as(t testing.TB, role string) []string {
	t.Helper()
	return []string{"Authorization", "Bearer " + token(t, jwt.MapClaims{"role": role, "sub": "someone"})}
}
