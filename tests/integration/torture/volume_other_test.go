//go:build !linux

package torture

import "testing"

// volume is a small file system, which this test mounts on Linux only.
type volume struct {
	dir     string
	freezes bool
}

func mountVolume(t *testing.T) *volume {
	t.Helper()
	t.Skip("a small volume is mounted on Linux only")
	return nil
}

func (v *volume) fill(*testing.T, int64) {}
func (v *volume) empty(*testing.T)       {}
func (v *volume) freeze(*testing.T)      {}
func (v *volume) thaw()                  {}
