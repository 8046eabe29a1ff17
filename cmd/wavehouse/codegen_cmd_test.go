package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGeneratedSourcesAreReadableAndReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	like := filepath.Join(dir, "like")
	require.NoError(t, os.WriteFile(like, nil, 0o644)) //nolint:gosec // what the umask makes of it is compared with
	want, err := os.Stat(like)
	require.NoError(t, err)

	file := filepath.Join(dir, "src", "types.ts")
	require.NoError(t, writeSource(file, []byte("first")))
	before := filepath.Join(dir, "before")
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, os.Link(file, before))
	require.NoError(t, writeSource(file, []byte("second")))
	text := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(name) //nolint:gosec // below the test's directory
		require.NoError(t, err)
		return string(data)
	}
	require.Equal(t, "second", text(file))
	require.Equal(t, "first", text(before), "who reads the old file goes on reading it")
	have, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, want.Mode(), have.Mode())
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside it")

	link := filepath.Join(dir, "link.ts")
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, writeSource(link, []byte("third")))
	require.Equal(t, "third", text(file), "a link is written through")
	require.Error(t, writeSource(filepath.Join(like, "types.ts"), nil))
}
