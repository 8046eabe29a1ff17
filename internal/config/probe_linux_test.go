package config

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProbeOfAFullVolume: the advice is about room, not about who owns it.
func TestProbeOfAFullVolume(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a small volume must be mounted where everything has to run: %v", err)
		}
		t.Skipf("a small volume cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	require.NoError(t, err)
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, ballast.Close())
	_, err = probe(dir)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "no room left")
	require.NotContains(t, err.Error(), "chown")
}
