package clickhousetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/wavehouse/wavehouse/internal/processtest"
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

// buildDevTool builds cmd/clickhouse-dev, where there is an engine for it.
func buildDevTool() (string, error) {
	root, err := processtest.ModuleRoot()
	if err != nil {
		return "", err
	}
	if os.Getenv("CLICKHOUSE_LIB") == "" && !hasLibrary(root) {
		return "", errNoServer
	}
	return processtest.Build("clickhouse-dev", "./cmd/clickhouse-dev")
}

func hasLibrary(root string) bool {
	found, _ := filepath.Glob(filepath.Join(root, ".cache", "clickhouse", "*", "libchdb.so"))
	return len(found) > 0
}
