package app

import (
	"context"
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
	queue, err := embedded.New(embedded.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, queue.Close(context.Background())) })
	window := queue.DuplicateWindow()
	_, err = load(window / 2)
	require.Error(t, err)
	require.Error(t, remembers(queue, window/2))
	c, err := load(40 * time.Second)
	require.NoError(t, err)
	require.NoError(t, remembers(queue, c.Dedupe.Lease))

	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json":   `{"dedupe":{"enabled":true,"retention":"` + window.String() + `"}}`,
		"policies.json": `{}`, "pipes.json": `{}`, "roles.json": `{}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	assert.False(t, settings.Validate(dir).OK(), "a retention as short as the window must be refused")
}
