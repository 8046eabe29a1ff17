package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// slowDisk lets a process write as often a second as given to the disk that dir is on,
// each write of a file and of its journal counted. It says why where that cannot be
// done: it takes the rights of root, and the block controller of control groups.
func slowDisk(t *testing.T, pid int, dir string, writes int) error {
	t.Helper()
	var info syscall.Stat_t
	require.NoError(t, syscall.Stat(dir, &info))
	major, minor := (info.Dev>>8)&0xfff, info.Dev&0xff
	group := filepath.Join("/sys/fs/cgroup/blkio", fmt.Sprintf("wavehouse-bench-%d", pid))
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Errorf("make a control group for a slow disk: %w", err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile("/sys/fs/cgroup/blkio/cgroup.procs", []byte(strconv.Itoa(pid)), 0o600) // or it has ended
		_ = os.Remove(group)
	})
	for _, set := range []struct{ file, value string }{
		{"blkio.throttle.write_iops_device", fmt.Sprintf("%d:%d %d", major, minor, writes)},
		{"cgroup.procs", strconv.Itoa(pid)},
	} {
		if err := os.WriteFile(filepath.Join(group, set.file), []byte(set.value), 0o600); err != nil {
			return fmt.Errorf("slow a disk down: %w", err)
		}
	}
	return nil
}
