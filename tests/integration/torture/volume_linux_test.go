package torture

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// longestFreeze is when a frozen volume thaws by itself.
	longestFreeze = 5 * time.Second

	// FIFREEZE and FITHAW of linux/fs.h.
	freezeRequest = 0xc0045877
	thawRequest   = 0xc0045878
)

// volume is a small file system for the server's data: ext4 in a file, or
// memory where no file can be mounted.
type volume struct {
	dir     string
	freezes bool
	thawer  *time.Timer
	frozen  atomic.Bool
}

// mountVolume mounts one for this test.
func mountVolume(t *testing.T) *volume {
	t.Helper()
	v := &volume{dir: t.TempDir(), freezes: true}
	if err := mountFile(filepath.Join(t.TempDir(), "volume"), v.dir); err != nil {
		t.Logf("no volume in a file, so none that is slow: %v", err)
		v.freezes = false
		if err := syscall.Mount("tmpfs", v.dir, "tmpfs", 0, fmt.Sprintf("size=%d", volumeSize)); err != nil {
			if os.Getenv("CI") == "true" {
				require.NoError(t, err, "a small volume must be mounted where everything has to run")
			}
			t.Skipf("a small volume cannot be mounted here: %v", err)
		}
	}
	t.Cleanup(func() {
		v.thaw()
		// Processes that are being killed may hold it a moment longer.
		require.Eventually(t, func() bool { return syscall.Unmount(v.dir, 0) == nil }, time.Minute, 50*time.Millisecond)
	})
	return v
}

func mountFile(file, dir string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(volumeSize), f.Close()); err != nil {
		return err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", file).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", file, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// fill leaves so many bytes free, or as few as there are.
func (v *volume) fill(t *testing.T, leave int64) {
	t.Helper()
	f, err := os.Create(v.ballast())
	require.NoError(t, err)
	defer f.Close()
	for step := int64(1 << 20); step >= 4<<10; {
		var s syscall.Statfs_t
		require.NoError(t, syscall.Statfs(v.dir, &s))
		if int64(s.Bavail)*s.Bsize-step < leave {
			step /= 4
			continue
		}
		if _, err := f.Write(make([]byte, step)); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			return
		}
	}
}

// empty removes what fill wrote.
func (v *volume) empty(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(v.ballast()))
}

func (v *volume) ballast() string { return filepath.Join(v.dir, "ballast") }

// freeze stops all writing: who writes waits until thaw, or longestFreeze.
func (v *volume) freeze(t *testing.T) {
	t.Helper()
	require.NoError(t, v.control(freezeRequest))
	v.frozen.Store(true)
	v.thawer = time.AfterFunc(longestFreeze, v.thaw)
}

// thaw undoes freeze.
func (v *volume) thaw() {
	if v.frozen.CompareAndSwap(true, false) {
		_ = v.control(thawRequest)
		v.thawer.Stop()
	}
}

func (v *volume) control(request uintptr) error {
	f, err := os.Open(v.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, 0); errno != 0 {
		return errno
	}
	return nil
}
