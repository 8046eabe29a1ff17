package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// startBare runs the bare handler in a process of its own and returns it with
// its address.
func startBare(t testing.TB, answer string, flags ...string) (*harness.Process, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "answer.json")
	require.NoError(t, os.WriteFile(file, []byte(answer), 0o600))
	return runBare(t, append(flags, file)...)
}

// startProxy runs Go's own reverse proxy in a process of its own and returns its
// address.
func startProxy(t testing.TB, engine string) string {
	t.Helper()
	_, addr := runBare(t, "-proxy", engine)
	return addr
}

func runBare(t testing.TB, args ...string) (*harness.Process, string) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bare")
	build := exec.Command("go", "build", "-o", bin, "./tests/bench/bare")
	build.Dir = harness.Root(t)
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	process := harness.StartProcess(t, dir, nil, bin, args...)
	addr := ""
	harness.Eventually(t, 10*time.Second, func() error {
		addr = strings.TrimSpace(process.Output())
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("the bare handler does not listen yet: %w", err)
		}
		return nil
	})
	return process, addr
}
