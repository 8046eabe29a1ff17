package clickhousetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

var errNoServer = errors.New("no ClickHouse: no WH_TEST_CLICKHOUSE, and no library in .cache/clickhouse: run scripts/fetch-clickhouse.sh")

// command is the server's command line.
func (p *process) command() (*exec.Cmd, error) {
	tool, err := devTool()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--path", p.dir, "--users", p.users, "--die-with-parent",
		"--http-port", strconv.Itoa(p.httpPort),
	}
	if p.native {
		args = append(args, "--native", "--tcp-port", strconv.Itoa(p.tcpPort))
	}
	if p.remove {
		args = append(args, "--rm")
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir = filepath.Dir(tool)
	// A Ctrl-C is for the tests; the server ends when they do.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}

// buildDevTool builds cmd/clickhouse-dev. The lock is for the test binaries that
// run beside this one.
func buildDevTool() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if os.Getenv("CLICKHOUSE_LIB") == "" && !hasLibrary(root) {
		return "", errNoServer
	}
	dir := filepath.Join(root, ".cache", "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the tools' directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "clickhouse-dev.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("lock the tools' directory: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the tools' directory: %w", err)
	}
	tool := filepath.Join(dir, "clickhouse-dev")
	build := exec.Command("go", "build", "-o", tool, "./cmd/clickhouse-dev")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build clickhouse-dev: %w: %s", err, out)
	}
	return tool, nil
}

func hasLibrary(root string) bool {
	found, _ := filepath.Glob(filepath.Join(root, ".cache", "clickhouse", "*", "libchdb.so"))
	return len(found) > 0
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
