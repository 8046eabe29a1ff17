package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// blocks returns the README's shell blocks that are marked for this test.
func blocks(t *testing.T, marker string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(harness.Root(t), "README.md"))
	require.NoError(t, err)
	var found []string
	parts := strings.Split(string(data), "<!-- run: "+marker+" -->\n```sh\n")
	for _, part := range parts[1:] {
		block, _, ok := strings.Cut(part, "\n```")
		require.True(t, ok)
		found = append(found, block)
	}
	require.NotEmpty(t, found)
	return found
}

// Everything that the README tells a newcomer to type works as it says. The
// ports are those of the README when they are free, so that the commands are
// run unchanged.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	port, httpPort := 8080, 8123
	for _, wanted := range []*int{&port, &httpPort} {
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(*wanted))
		if err != nil {
			*wanted = harness.FreePort(t)
			continue
		}
		require.NoError(t, listener.Close())
	}
	dir := t.TempDir()
	dev := startDev(t, dir, port)
	if httpPort != 8123 {
		t.Log("port 8123 is taken: the screen names another")
	}
	shown := strings.SplitN(strings.SplitN(dev.Output(), "ClickHouse  http://127.0.0.1:", 2)[1], " ", 2)[0]
	adapt := strings.NewReplacer("localhost:8080", fmt.Sprintf("localhost:%d", port), "localhost:8123", "localhost:"+shown)

	stream := harness.StartProcess(t, dir, nil, "sh", "-c", "exec "+adapt.Replace(blocks(t, "readme-stream")[0]))
	harness.Eventually(t, time.Minute, func() error {
		if !strings.Contains(stream.Output(), ": connected") {
			return fmt.Errorf("stream: %s", stream.Output())
		}
		return nil
	})

	commands := blocks(t, "readme")
	out := shell(t, adapt.Replace(commands[0]))
	require.Contains(t, out, `{"ok":true}`)
	require.Contains(t, out, `"succeeded":1`)
	require.Contains(t, out, `"code":"record.type_mismatch"`)
	require.Contains(t, out, `"column":"delay"`)
	// The rows are seen live before they can be read.
	harness.Eventually(t, time.Minute, func() error {
		for _, id := range []string{"mine-1", "mine-2", "mine-4"} {
			if !strings.Contains(stream.Output(), id) {
				return fmt.Errorf("%s is not in the stream: %s", id, stream.Output())
			}
		}
		return nil
	})
	harness.Eventually(t, time.Minute, func() error {
		out = shell(t, adapt.Replace(commands[1]))
		for _, id := range []string{"mine-1", "mine-2", "mine-4"} {
			if !strings.Contains(out, id) {
				return fmt.Errorf("%s cannot be read: %s", id, out)
			}
		}
		return nil
	})
	require.NotContains(t, out, "mine-3")
	require.Contains(t, out, `"flights":`)

	harness.Eventually(t, time.Minute, func() error {
		local := strings.NewReplacer("data/dev", dir, "bin/wavehouse", filepath.Join(binaries.Dir(t), "wavehouse"))
		out = shell(t, local.Replace(adapt.Replace(blocks(t, "readme-token")[0])))
		if !strings.Contains(out, `"origin":"SFO"`) || strings.Count(out, `"origin"`) != 1 {
			return fmt.Errorf("the viewer sees %s", out)
		}
		return nil
	})
	require.Contains(t, shell(t, adapt.Replace(commands[2])), `{"ok":true}`)
	require.Equal(t, 1, awaitCount(t, port, "clicks", 1))
}

// The commands that start and test the product exist under the names that the
// README uses.
func TestReadmeMakeTargets(t *testing.T) {
	t.Parallel()
	help := shell(t, "make --no-print-directory -C '"+harness.Root(t)+"' help")
	for _, target := range []string{"run", "test", "build"} {
		require.Contains(t, help, "  "+target)
	}
	readme, err := os.ReadFile(filepath.Join(harness.Root(t), "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(readme), "\nmake run\n")
	require.Contains(t, string(readme), "\nmake test\n")
}
