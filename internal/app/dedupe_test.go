package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/settings"
)

// The queue knows a message again for longer than two leases, and forgets it
// before its ids may be used again.
func TestDuplicateWindowFitsLeaseAndRetention(t *testing.T) {
	load := func(lease time.Duration) (*config.Config, error) {
		c, _, err := config.Load([]string{"WH_SETTINGS_DIR=x", "WH_DEDUPE_LEASE=" + lease.String()}, nil)
		return c, err
	}
	_, err := load(embedded.DuplicateWindow / 2)
	require.Error(t, err)
	c, err := load(40 * time.Second)
	require.NoError(t, err)
	assert.Less(t, 2*c.Dedupe.Lease, embedded.DuplicateWindow)

	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json":   `{"dedupe":{"enabled":true,"retention":"` + embedded.DuplicateWindow.String() + `"}}`,
		"policies.json": `{}`, "pipes.json": `{}`, "roles.json": `{}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	assert.False(t, settings.Validate(dir).OK(), "a retention as short as the window must be refused")
}
