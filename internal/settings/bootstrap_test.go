package settings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestBootstrapFailsClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "settings")
	written, err := Bootstrap(dir, Closed())
	require.NoError(t, err)
	var want []string
	for _, name := range fileNames() {
		want = append(want, filepath.Join(dir, name))
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Contains(t, string(text), `"$comment": [`)
		assert.Contains(t, string(text), `"$schema": "`+schemaID(name)+`"`)
	}
	assert.Equal(t, want, written)
	r := Validate(dir)
	assert.Empty(t, errorsOf(r.Findings))
	s := r.Tenants[tenant.Default]
	assert.False(t, s.Policy.Adopted())
	config := DefaultConfig()
	config.Auth.RequireExp = true
	assert.Equal(t, config, *s.Config)
}

func TestBootstrapPermissive(t *testing.T) {
	dir := t.TempDir()
	_, err := Bootstrap(dir, Permissive("127.0.0.1", 18123))
	require.NoError(t, err)
	r := Validate(dir)
	require.Empty(t, r.Findings)
	s := r.Tenants[tenant.Default]
	assert.Equal(t, "127.0.0.1", s.Config.ClickHouse.Addr)
	assert.Equal(t, 18123, s.Config.ClickHouse.HTTPPort)
	selects, err := s.Policy.Select("", "anything")
	require.NoError(t, err)
	assert.True(t, selects.Allows("any column"))
	inserts, err := s.Policy.Insert("", "anything")
	require.NoError(t, err)
	assert.True(t, inserts.Allows("any column"))
}

func TestBootstrapWritesOverNothing(t *testing.T) {
	for _, name := range []string{"config.json", ".hidden"} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, name), "mine")
		_, err := Bootstrap(dir, Closed())
		require.ErrorContains(t, err, "is not empty")
		left, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, "mine", string(left))
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "")
	_, err := Bootstrap(file, Closed())
	assert.Error(t, err)
	require.ErrorIs(t, Closed().write(fileRoles, file), os.ErrExist)
	assert.FileExists(t, file)
}
