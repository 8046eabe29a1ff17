package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// newGroup makes a control group with a memory limit, of version 2 or 1, "" where
// this machine lets us make none. It is removed when the test ends, so it must be
// made before the server is started.
func newGroup(t *testing.T, limit int64) string {
	t.Helper()
	for _, version := range []struct{ controllers, root, limit string }{
		{"sys/fs/cgroup/cgroup.controllers", "sys/fs/cgroup", "memory.max"},
		{"", "sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		if version.controllers != "" {
			text, err := os.ReadFile("/" + version.controllers)
			if err != nil || !strings.Contains(string(text), "memory") {
				continue
			}
			// Groups have a limit of memory only where the one above says so.
			_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0o600)
		}
		dir, err := os.MkdirTemp("/"+version.root, "wavehouse-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			harness.Eventually(t, time.Minute, func() error { return os.Remove(dir) })
		})
		if os.WriteFile(filepath.Join(dir, version.limit), []byte(strconv.FormatInt(limit, 10)), 0o600) == nil {
			return dir
		}
	}
	return ""
}

// groupPeak is the most memory that a group had, in bytes, with what the kernel
// keeps of files for it; 0 where it is not told.
func groupPeak(t *testing.T, group string) (peak int64) {
	t.Helper()
	for _, name := range []string{"memory.peak", "memory.max_usage_in_bytes"} {
		if text, err := os.ReadFile(filepath.Join(group, name)); err == nil {
			_, err = fmt.Sscan(string(text), &peak)
			require.NoError(t, err)
		}
	}
	return peak
}
