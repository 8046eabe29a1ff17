package cluster

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/natstest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// One command runs a cluster of everything, and a Ctrl-C ends all of it.
func TestDevRunsACluster(t *testing.T) {
	t.Parallel()
	nats, err := natstest.Server()
	require.NoError(t, err)
	port := harness.FreePort(t)
	dir := t.TempDir()
	dev := harness.StartProcess(t, harness.Root(t), nil, filepath.Join(binaries.Dir(t), "wavehouse"),
		"dev", "--cluster", "3", "--nats-server", nats, "--dir", dir, "--port", strconv.Itoa(port))
	harness.Eventually(t, 3*time.Minute, func() error {
		select {
		case <-dev.Exited():
			require.FailNow(t, "wavehouse dev ended", dev.Output())
		default:
		}
		if !strings.Contains(dev.Output(), "WaveHouse is running") {
			return fmt.Errorf("no screen yet: %s", dev.Output())
		}
		return nil
	})
	assert.Contains(t, dev.Output(), "posted 20000 flights")
	p := &harness.Server{URL: fmt.Sprint("http://localhost:", port)}
	harness.Eventually(t, patience, func() error {
		a := p.Query(t, "flights", `{"aggregations":[{"fn":"count","column":"*","alias":"n"}]}`)
		if !strings.Contains(a.Body, "20000") {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	a := p.Do(t, http.MethodGet, "/v1/health", "", "Origin", "https://elsewhere.example")
	assert.Equal(t, http.StatusForbidden, a.Status, "it answers this machine alone")
	dev.Interrupt()
	require.Zero(t, dev.Wait(t, patience), dev.Output())
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range commands {
		command, err := os.ReadFile(file)
		assert.False(t, err == nil && strings.Contains(string(command), dir), "left running: %q", command)
	}
}
