package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// startDev runs `wavehouse dev` from the repository's root, where the fetched
// data is, and waits for its screen.
func startDev(t *testing.T, dir string, port int, args ...string) *harness.Process {
	t.Helper()
	p := harness.StartProcess(t, harness.Root(t), nil, filepath.Join(binaries.Dir(t), "wavehouse"),
		append([]string{"dev", "--dir", dir, "--port", strconv.Itoa(port)}, args...)...)
	harness.Eventually(t, 3*time.Minute, func() error {
		select {
		case <-p.Exited():
			require.FailNow(t, "wavehouse dev ended", p.Output())
		default:
		}
		if !strings.Contains(p.Output(), "WaveHouse is running") {
			return fmt.Errorf("no screen yet: %s", p.Output())
		}
		return nil
	})
	return p
}

// promptly is how soon a process ends that waits for nobody.
const promptly = 30 * time.Second

// shell runs a command as a user pastes it.
func shell(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
	return string(out)
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var children []int
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// pid (name) state ppid …: the name may hold anything.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			children = append(children, child)
		}
	}
	return children
}

func TestDevTwiceInARow(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), harness.FreePort(t)
	dev := startDev(t, dir, port)
	screen := dev.Output()
	require.Contains(t, screen, fmt.Sprintf("http://localhost:%d", port))
	require.Contains(t, screen, "posted 20000 flights")
	require.Equal(t, 3, strings.Count(screen, "  curl "), "three commands to paste")
	children := childrenOf(t, dev.PID())
	require.NotEmpty(t, children, "dev runs a ClickHouse")

	requireLocalOnly(t, port)
	commands := pasted(screen)
	require.Contains(t, shell(t, commands[1]), `{"ok":true}`)
	require.Equal(t, 20001, awaitCount(t, port, "flights", 20001))
	require.Contains(t, shell(t, commands[2]), `"origin":`)

	stopped := time.Now()
	dev.Interrupt()
	require.Zero(t, dev.Wait(t, promptly))
	t.Logf("stopped in %s", time.Since(stopped))
	for _, child := range children {
		require.ErrorIs(t, syscall.Kill(child, 0), syscall.ESRCH, "process %d is left behind", child)
	}

	again := startDev(t, dir, port)
	require.Equal(t, 20001, awaitCount(t, port, "flights", 20001), "the data is still there, and was not posted again")
	again.Interrupt()
	require.Zero(t, again.Wait(t, promptly))
}

// requireLocalOnly asks as web pages would: one of this machine, one from
// elsewhere, and one whose own name leads here.
func requireLocalOnly(t *testing.T, port int) {
	t.Helper()
	ask := func(header string) string {
		return shell(t, fmt.Sprintf(`curl -sS -o /dev/null -w '%%{http_code}' -X POST -H '%s' 'localhost:%d/v1/query?table=flights' -d '{"select_all":true,"limit":1}'`, header, port))
	}
	require.Equal(t, "200", ask("Origin: http://localhost:3000"))
	require.Equal(t, "403", ask("Origin: https://evil.example"))
	require.Equal(t, "403", ask("Origin: null"))
	require.Equal(t, "403", ask("Host: evil.example"))
}

// pasted returns the commands that the screen shows, each on one line.
func pasted(screen string) []string {
	var commands []string
	joined := strings.ReplaceAll(screen, "\\\n", " ")
	for line := range strings.SplitSeq(joined, "\n") {
		if command, ok := strings.CutPrefix(line, "  curl "); ok {
			commands = append(commands, "curl -sS "+command)
		}
	}
	return commands
}

// awaitCount waits until the table has that many rows, and returns how many it has.
func awaitCount(t *testing.T, port int, table string, least int) (n int) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() (err error) {
		if n, err = tryCount(t, port, table); err == nil && n < least {
			err = fmt.Errorf("%d rows of %s", n, table)
		}
		return err
	})
	return n
}

func tryCount(t *testing.T, port int, table string) (int, error) {
	t.Helper()
	out := shell(t, fmt.Sprintf(`curl -sS -X POST 'localhost:%d/v1/query?table=%s' -d '{"aggregations":[{"fn":"count","column":"*","alias":"n"}]}'`, port, table))
	found := regexp.MustCompile(`^\[\s*\{"n":(\d+)\}\s*\]`).FindStringSubmatch(out)
	if len(found) != 2 {
		return 0, fmt.Errorf("no count: %s", out)
	}
	return strconv.Atoi(found[1])
}

func TestDevKilledLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dev := startDev(t, t.TempDir(), harness.FreePort(t), "--no-demo")
	children := childrenOf(t, dev.PID())
	require.NotEmpty(t, children)
	dev.Kill()
	for _, child := range children {
		harness.Eventually(t, time.Minute, func() error {
			if err := syscall.Kill(child, 0); err == nil {
				return fmt.Errorf("process %d is left behind", child)
			}
			return nil
		})
	}
}

func TestDevNamesAPortInUse(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	p := harness.StartProcess(t, t.TempDir(), nil, filepath.Join(binaries.Dir(t), "wavehouse"), "dev", "--dir", t.TempDir(), "--port", port)
	require.Equal(t, 1, p.Wait(t, time.Minute))
	require.Contains(t, p.Output(), "port "+port+" cannot be used")
	require.Contains(t, p.Output(), "--port")
}

func TestDevUsesTheClickHouseItIsGiven(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	port := harness.FreePort(t)
	dev := startDev(t, t.TempDir(), port, "--no-demo",
		"--clickhouse", "127.0.0.1", "--clickhouse-http-port", strconv.Itoa(clickhouse.HTTPPort))
	require.Empty(t, childrenOf(t, dev.PID()), "it starts none of its own")
	require.Contains(t, dev.Output(), "Create a table of your own")
	clickhouse.Must(t, "CREATE TABLE clicks (page String) ENGINE = MergeTree ORDER BY page")
	require.Contains(t, shell(t, fmt.Sprintf(
		`curl -sS -X POST 'localhost:%d/v1/ingest?table=clicks' -H 'Content-Type: application/json' -d '{"page":"/home"}'`, port)), `{"ok":true}`)
	harness.Eventually(t, time.Minute, func() error {
		if got := clickhouse.Must(t, "SELECT count() FROM clicks"); got != "1" {
			return fmt.Errorf("%s rows", got)
		}
		return nil
	})
	dev.Signal(syscall.SIGTERM)
	require.Zero(t, dev.Wait(t, promptly))

	wrong := harness.StartProcess(t, t.TempDir(), nil, filepath.Join(binaries.Dir(t), "wavehouse"), "dev",
		"--dir", t.TempDir(), "--port", strconv.Itoa(harness.FreePort(t)), "--clickhouse", "127.0.0.1:1", "--clickhouse-http-port", "1")
	require.Equal(t, 1, wrong.Wait(t, time.Minute))
	require.Contains(t, wrong.Output(), "--clickhouse 127.0.0.1:1")
}

func TestDevStopsWhileAStreamIsOpen(t *testing.T) {
	t.Parallel()
	port := harness.FreePort(t)
	dev := startDev(t, t.TempDir(), port)
	response, err := http.Get(fmt.Sprintf("http://localhost:%d/v1/stream?table=flights", port))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	dev.Interrupt()
	require.Zero(t, dev.Wait(t, promptly))
}

func TestDevStartsItsClickHouseAgain(t *testing.T) {
	t.Parallel()
	port := harness.FreePort(t)
	dev := startDev(t, t.TempDir(), port)
	children := childrenOf(t, dev.PID())
	require.Len(t, children, 1)
	require.NoError(t, syscall.Kill(children[0], syscall.SIGKILL))
	harness.Eventually(t, 2*time.Minute, func() error {
		if !strings.Contains(dev.Output(), "starting it again") {
			return fmt.Errorf("%s", dev.Output())
		}
		response, err := http.Get(fmt.Sprintf("http://localhost:%d/readyz", port))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", response.Status)
		}
		return nil
	})
	// What had been answered is there, or comes from the queue.
	awaitCount(t, port, "flights", 20000)
	dev.Interrupt()
	require.Zero(t, dev.Wait(t, promptly))
}
