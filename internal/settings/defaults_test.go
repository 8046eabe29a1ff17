package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a tenant's files say is written over the defaults.
func TestDefaultsAreNotShared(t *testing.T) {
	untouched, one := DefaultConfig(), DefaultConfig()
	one.ClickHouse.Headers["X-One"] = "1"
	one.CORS.AllowedOrigins[0] = "https://one.example"
	one.Dedupe.Tables["events"] = one.Dedupe.Tables["pages"]
	require.Equal(t, untouched, DefaultConfig())
	require.NotEqual(t, untouched, one)
}
