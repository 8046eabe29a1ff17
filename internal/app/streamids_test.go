package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/mq"
)

func TestTheKeyOfStreamIDs(t *testing.T) {
	pages := mq.Topic{Tenant: "0", Table: "pages"}
	under := func(c *config.Config) string {
		t.Helper()
		made, err := newSeals(c, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return made.ids.After(pages, mq.NewPosition(1, 2))
	}
	alone := config.Default()
	alone.DataDir = t.TempDir()
	first := under(alone)
	assert.Equal(t, first, under(alone), "it is kept")
	other := config.Default()
	other.DataDir = t.TempDir()
	assert.NotEqual(t, first, under(other), "each has its own")

	alone.Stream.IDKey, other.Stream.IDKey = "a key that two processes share 01", "a key that two processes share 01"
	assert.Equal(t, under(alone), under(other))
	assert.NotEqual(t, first, under(alone))

	path := filepath.Join(other.DataDir, idKeyFile)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&0o077)
	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	other.Stream.IDKey = ""
	_, err = newSeals(other, slog.New(slog.DiscardHandler))
	assert.ErrorContains(t, err, path)

	nowhere := config.Default()
	nowhere.DataDir = filepath.Join(t.TempDir(), "gone")
	under(nowhere)
	nowhere.Roles = []string{config.RoleIngest}
	under(nowhere)
}
