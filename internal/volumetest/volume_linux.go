// Package volumetest gives tests a real volume that is small enough to fill.
package volumetest

import (
	"os"
	"syscall"
	"testing"
)

// Volume is a small file system of the test's own.
type Volume struct {
	Dir string
	// MayBeHeld lets the test end while files on the volume are open; else that
	// is a failure.
	MayBeHeld bool
}

// Small mounts a volume of a size such as "6m" until the test ends. Where none
// can be mounted the test is skipped, and fails under CI=true.
func Small(t testing.TB, size string) *Volume {
	t.Helper()
	v := &Volume{Dir: t.TempDir()}
	if err := syscall.Mount("tmpfs", v.Dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a small volume must be mounted where everything has to run: %v", err)
		}
		t.Skipf("a small volume cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		flags := 0
		if v.MayBeHeld {
			flags = syscall.MNT_DETACH
		}
		if err := syscall.Unmount(v.Dir, flags); err != nil {
			t.Errorf("unmount %s: %v", v.Dir, err)
		}
	})
	return v
}

// Resize gives the volume another size.
func (v *Volume) Resize(t testing.TB, size string) {
	t.Helper()
	if err := syscall.Mount("", v.Dir, "", syscall.MS_REMOUNT, "size="+size); err != nil {
		t.Fatalf("resize %s: %v", v.Dir, err)
	}
}
