package config

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/volumetest"
)

// TestProbeOfAFullVolume: the advice is about room, not about who owns it.
func TestProbeOfAFullVolume(t *testing.T) {
	dir := volumetest.Small(t, "64k").Dir
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
