// Package harness runs the built binaries for tests, as a user would: real
// processes, real ports, real files. What it starts it stops.
package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// Root is the repository's root.
func Root(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	require.True(t, ok)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Binaries builds the commands, once per test process, and returns the
// directory they are in. The caller removes nothing: Main does.
type Binaries struct {
	once sync.Once
	dir  string
	err  error
}

// Dir builds on the first call.
func (b *Binaries) Dir(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "wavehouse-bin-"); b.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", b.dir+"/", "./cmd/...")
		cmd.Dir = Root(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build the commands: %w\n%s", err, out)
		}
	})
	require.NoError(t, b.err)
	return b.dir
}

// Remove deletes what was built.
func (b *Binaries) Remove() { _ = os.RemoveAll(b.dir) }

// Eventually polls until check returns nil, and fails with its last error at
// the deadline.
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			require.NoError(t, err, "still so after %s", within)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// FreePort returns a port that nothing listens on just now.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := processtest.FreePort()
	require.NoError(t, err)
	return port
}
