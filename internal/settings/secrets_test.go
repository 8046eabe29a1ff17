package settings

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwords.json")
	put(t, path, `{"0": "hunter2", "birch": ""}`)
	got, err := Secrets("clickhouse.passwords_file", path)
	require.NoError(t, err)
	assert.Equal(t, map[tenant.ID]config.Secret{"0": "hunter2", "birch": ""}, got)

	for _, bad := range []string{`{"0": "hunter2",}`, `{"a b": "hunter2"}`, `["hunter2"]`, `{"0": 5, "1": "hunter2"}`, ``} {
		put(t, path, bad)
		_, err := Secrets("clickhouse.passwords_file", path)
		require.ErrorContains(t, err, "clickhouse.passwords_file", bad)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	_, err = Secrets("clickhouse.passwords_file", "/nowhere")
	assert.ErrorContains(t, err, "no such file")
}
