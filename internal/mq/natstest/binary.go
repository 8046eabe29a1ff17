package natstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Server is the path of the pinned server's binary, which is built first.
func Server() (string, error) { return buildServer() }

// buildServer builds the server of the pinned module. The lock is for the test
// binaries that run beside this one.
func buildServer() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the tools' directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "nats-server.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("lock the tools' directory: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the tools' directory: %w", err)
	}
	tool := filepath.Join(dir, "nats-server")
	build := exec.Command("go", "build", "-o", tool, "github.com/nats-io/nats-server/v2")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build nats-server: %w: %s", err, out)
	}
	return tool, nil
}

// moduleRoot is the directory of go.mod above the package under test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the module: no go.mod above the working directory")
		}
		dir = parent
	}
}
