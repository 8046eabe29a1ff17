package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFoldsCase asks the file system of the test's folder in another way.
func TestFoldsCase(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "A"), []byte("upper"), 0o600))
	content, err := os.ReadFile(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Equal(t, string(content) == "upper", foldsCase(dir))
	require.False(t, foldsCase(filepath.Join(dir, "none")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.LessOrEqual(t, len(entries), 2, "nothing is left behind")
}
