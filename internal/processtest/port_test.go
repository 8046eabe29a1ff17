package processtest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// No two who ask at the same time are given one port, whatever their process.
func TestAPortIsGivenToOneWhoAsks(t *testing.T) {
	const each = 50
	if os.Getenv("PROCESSTEST_PORTS") != "" {
		for range each {
			port, err := processtest.FreePort()
			require.NoError(t, err)
			fmt.Println("port", port)
		}
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // it has them until it ends
		return
	}
	seen := map[int]bool{}
	note := func(port int) {
		require.False(t, seen[port], "port %d", port)
		seen[port] = true
	}
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "PROCESSTEST_PORTS=1")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer func() { _ = in.Close(); _ = cmd.Wait() }()
		lines := bufio.NewScanner(out)
		for given := 0; given < each; {
			require.True(t, lines.Scan(), "it ended early")
			var port int
			if _, err := fmt.Sscanf(lines.Text(), "port %d", &port); err == nil {
				note(port)
				given++
			}
		}
	}
	for range each {
		port, err := processtest.FreePort()
		require.NoError(t, err)
		note(port)
	}
	busy, err := processtest.FreePort()
	require.NoError(t, err)
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", busy))
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	for range 500 {
		port, err := processtest.FreePort()
		require.NoError(t, err)
		require.NotEqual(t, busy, port, "somebody listens on it")
	}
}
