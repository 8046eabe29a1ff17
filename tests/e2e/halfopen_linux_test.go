package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// vanish makes a connection's peer find nobody: a socket filter drops every
// segment that comes, acknowledgements are never sent, and no reset is.
func vanish(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}})
	}))
	require.NoError(t, failed)
}

// subscribers reads the gauge of open streams.
func subscribers(t *testing.T, s *harness.Server) string {
	t.Helper()
	for line := range strings.Lines(s.Do(t, http.MethodGet, "/metrics", "").Body) {
		if value, ok := strings.CutPrefix(line, `wavehouse_stream_subscribers{tenant="0"} `); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Clients that vanish without a word are found and their streams end, within
// about a minute, while one that is there stays.
func TestTwoThousandHalfOpenConnections(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE pages (id String) ENGINE = MergeTree ORDER BY id")
	server := harness.StartServer(t, harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: clickhouse,
		Config: map[string]string{"stream": `{"keepalive_interval":5}`},
	})
	server.AwaitReady(t)
	const gone = 2000
	host := strings.TrimPrefix(server.URL, "http://")
	open := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", host)
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "GET /v1/stream?table=pages HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		require.NoError(t, err)
		return conn, bufio.NewReader(conn)
	}
	conns := make([]net.Conn, gone)
	for i := range conns {
		var reader *bufio.Reader
		conns[i], reader = open()
		_, err := reader.ReadString('\n')
		require.NoError(t, err)
	}
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	stays, reader := open()
	defer stays.Close()
	harness.Eventually(t, time.Minute, func() error {
		if n := subscribers(t, server); n != fmt.Sprint(gone+1) {
			return fmt.Errorf("%s streams", n)
		}
		return nil
	})
	for _, conn := range conns {
		vanish(t, conn)
	}
	harness.Eventually(t, 3*time.Minute, func() error {
		if n := subscribers(t, server); n != "1" {
			return fmt.Errorf("%s streams", n)
		}
		return nil
	})
	require.Equal(t, http.StatusOK, server.Ingest(t, "pages", `{"id":"still-here"}`).Status)
	for {
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		if strings.Contains(line, "still-here") {
			return
		}
	}
}
