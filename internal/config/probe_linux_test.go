package config

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/volumetest"
)

// TestProbeOfAFullVolume: the start goes on, and the advice is about room, not about
// who owns the volume.
func TestProbeOfAFullVolume(t *testing.T) {
	dir := volumetest.Small(t, "64k").Dir
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	require.NoError(t, err)
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, ballast.Close())
	warnings, err := probe(dir)
	require.NoError(t, err, "to drain what waits makes room")
	require.Contains(t, warnings[0], "no room left")
	require.NotContains(t, warnings[0], "chown")
}
