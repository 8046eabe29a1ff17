package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ClickHouse is a real ClickHouse on a port and a directory that stay the same
// over its restarts.
type ClickHouse struct {
	HTTPPort int
	// NativePort is that of the native protocol, 0 when it is not spoken.
	NativePort int
	native     bool
	bin, dir   string
	process    *Process
}

// StartClickHouse runs one for this test.
func StartClickHouse(t testing.TB, bin string) *ClickHouse {
	t.Helper()
	c := &ClickHouse{HTTPPort: FreePort(t), bin: bin, dir: t.TempDir()}
	c.Start(t)
	return c
}

// StartNativeClickHouse runs one that speaks the native protocol too, as
// early versions of the server need it.
func StartNativeClickHouse(t testing.TB, bin string) *ClickHouse {
	t.Helper()
	c := &ClickHouse{HTTPPort: FreePort(t), NativePort: FreePort(t), native: true, bin: bin, dir: t.TempDir()}
	c.Start(t)
	return c
}

// Addr is what `clickhouse.addr` says of it.
func (c *ClickHouse) Addr() string {
	if c.NativePort == 0 {
		return "127.0.0.1"
	}
	return "127.0.0.1:" + strconv.Itoa(c.NativePort)
}

// Start runs it, again after Stop or Kill, and waits until it answers. One that
// runs is left alone.
func (c *ClickHouse) Start(t testing.TB) {
	t.Helper()
	if c.process != nil && !c.process.ended() {
		return
	}
	c.run(t)
	Eventually(t, 90*time.Second, func() error {
		select {
		case <-c.process.Exited():
			// A port that was free had another owner by the time it was bound.
			if !strings.Contains(strings.ToLower(c.process.Output()), "address already in use") {
				require.FailNow(t, "clickhouse-dev ended", c.process.Output())
			}
			c.run(t)
		default:
		}
		return c.ready()
	})
}

func (c *ClickHouse) run(t testing.TB) {
	t.Helper()
	args := []string{"--die-with-parent", "--path=" + c.dir, "--http-port=" + strconv.Itoa(c.HTTPPort)}
	if c.native {
		args = append(args, "--native", "--tcp-port="+strconv.Itoa(c.NativePort))
	}
	c.process = StartProcess(t, Root(t), nil, filepath.Join(c.bin, "clickhouse-dev"), args...)
}

// ready reads the line that clickhouse-dev prints once it answers.
func (c *ClickHouse) ready() error {
	for line := range strings.Lines(c.process.Output()) {
		var said struct {
			HTTPPort   int `json:"http_port"`
			NativePort int `json:"tcp_port"`
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.HTTPPort != 0 {
			c.HTTPPort, c.NativePort = said.HTTPPort, said.NativePort
			return nil
		}
	}
	return fmt.Errorf("clickhouse-dev does not answer yet: %s", c.process.Output())
}

// Stop ends it as an operator would.
func (c *ClickHouse) Stop(t testing.TB) {
	t.Helper()
	c.process.Signal(syscall.SIGTERM)
	c.process.Wait(t, time.Minute)
}

// Kill ends it at once.
func (c *ClickHouse) Kill() { c.process.Kill() }

// Query runs a statement over HTTP and returns its answer, trimmed.
func (c *ClickHouse) Query(statement string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(), strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	response, err := Client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("clickhouse answered %s: %s", response.Status, body)
	}
	return strings.TrimSpace(string(body)), nil
}

// Must is Query that fails the test.
func (c *ClickHouse) Must(t testing.TB, statement string) string {
	t.Helper()
	answer, err := c.Query(statement)
	require.NoError(t, err, statement)
	return answer
}

// URL is its HTTP interface.
func (c *ClickHouse) URL() string { return fmt.Sprintf("http://127.0.0.1:%d/", c.HTTPPort) }

// PID is its process id.
func (c *ClickHouse) PID() int { return c.process.PID() }
