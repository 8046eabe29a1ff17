package dev

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// withClickHouseDev puts the real clickhouse-dev on PATH, or skips where the
// engine was not fetched; where everything has to run, that is a failure.
func withClickHouseDev(t *testing.T) {
	t.Helper()
	found, err := filepath.Glob("../../.cache/clickhouse/*/libchdb.so")
	require.NoError(t, err)
	if len(found) == 0 && os.Getenv("CLICKHOUSE_LIB") == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("the ClickHouse library is not fetched: make deps")
		}
		t.Skip("the ClickHouse library is not fetched: make deps")
	}
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "../../cmd/clickhouse-dev").CombinedOutput()
	require.NoError(t, err, string(out))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// screen is an output that is read while it is written.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// stubServer listens where dev wants its server, and takes every row.
type stubServer struct {
	ingest *ingestStub
	got    ServerOptions
}

func (s *stubServer) Run(ctx context.Context, o ServerOptions, ready func()) error {
	s.got = o
	listener, err := net.Listen("tcp", net.JoinHostPort(o.Host, strconv.Itoa(o.Port)))
	if err != nil {
		return err
	}
	web := &http.Server{Handler: s.ingest, ReadHeaderTimeout: time.Second}
	done := make(chan error, 1)
	go func() { done <- web.Serve(listener) }()
	ready()
	<-ctx.Done()
	_ = web.Close()
	<-done
	return nil
}

// unused is a port that nobody listens on.
func unused(t *testing.T) int {
	t.Helper()
	port, err := processtest.FreePort()
	require.NoError(t, err)
	return port
}

func demoFile(t *testing.T, rows int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rows.ndjson")
	row := `{"flight_id":"1","departed_at":"2001-01-01T00:00:00Z","origin":"A","destination":"B","delay":1,"distance":2}` + "\n"
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat(row, rows)), 0o600))
	return file
}

func TestRunStartsEverythingAndStopsIt(t *testing.T) {
	withClickHouseDev(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, server := &screen{}, &stubServer{ingest: &ingestStub{}}
	o := Options{Dir: t.TempDir(), Port: unused(t), DemoData: demoFile(t, 1500), Out: out}
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o, server) }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "WaveHouse is running") }, 2*time.Minute, 10*time.Millisecond)
	require.Contains(t, out.String(), "posted 1500 flights")
	require.Equal(t, 1500, server.ingest.rows)
	require.Equal(t, loopback, server.got.Host)
	require.NotEmpty(t, server.got.OperatorKey)

	// A ClickHouse that dies is started again, with its data.
	pid := engineOf(t, o.Dir)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		again, err := findEngine(o.Dir)
		return err == nil && again != pid
	}, 2*time.Minute, 10*time.Millisecond)
	require.Contains(t, out.String(), "starting it again")

	cancel()
	require.NoError(t, <-ended)
	_, err := findEngine(o.Dir)
	require.Error(t, err, "nothing is left behind")
	require.Contains(t, out.String(), "stopping")
}

// engineOf is the process id of the ClickHouse over a directory.
func engineOf(t *testing.T, dir string) int {
	t.Helper()
	pid, err := findEngine(dir)
	require.NoError(t, err)
	return pid
}

func findEngine(dir string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte("--path="+filepath.Join(dir, "clickhouse"))) {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, fmt.Errorf("no ClickHouse over %s", dir)
}

func TestRunStopsWhenTheServerFails(t *testing.T) {
	withClickHouseDev(t)
	o := Options{Dir: t.TempDir(), Port: unused(t), NoDemo: true, Out: &screen{}}
	err := Run(t.Context(), o, failingServer{})
	require.ErrorContains(t, err, "the disk is gone")
	_, err = findEngine(o.Dir)
	require.Error(t, err)
}

type failingServer struct{}

func (failingServer) Run(context.Context, ServerOptions, func()) error {
	return fmt.Errorf("the disk is gone")
}

// A port that was free a moment ago is another ClickHouse's by the time it is bound:
// that one is left alone.
func TestAPortThatAnotherClickHouseTookIsLeftToIt(t *testing.T) {
	withClickHouseDev(t)
	asked := make(chan string, 1000)
	web := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		statement, _ := io.ReadAll(r.Body)
		asked <- string(statement)
		fmt.Fprintln(w, "26.7\t"+os.TempDir()+"/")
	})}
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	require.NoError(t, err)
	go func() { _ = web.Serve(listener) }()
	defer web.Close()
	ports := []int{listener.Addr().(*net.TCPAddr).Port, unused(t)}
	next := 0
	c, err := launch(t.Context(), Options{Dir: t.TempDir()}, newProgress(&screen{}, false), func() int {
		next++
		return ports[next-1]
	})
	require.NoError(t, err)
	defer c.stop()
	require.Equal(t, ports[1], c.http)
	require.NotEqual(t, "26.7", c.version)
	for range len(asked) {
		require.Contains(t, <-asked, "SELECT version()", "nothing but who it is")
	}
}

func TestRunNamesAPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	require.NoError(t, err)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	err = Run(t.Context(), Options{Dir: t.TempDir(), Port: port, Out: &screen{}}, failingServer{})
	require.ErrorContains(t, err, strconv.Itoa(port))
}

func TestRunUsesAClickHouseThatRuns(t *testing.T) {
	web := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "26.7")
	})}
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	require.NoError(t, err)
	go func() { _ = web.Serve(listener) }()
	defer web.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &screen{}
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Dir: t.TempDir(), Port: unused(t), NoDemo: true, Out: out,
			ClickHouse: "127.0.0.1", ClickHouseHTTP: listener.Addr().(*net.TCPAddr).Port,
		}, &stubServer{ingest: &ingestStub{}})
	}()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "Create a table of your own") }, time.Minute, 5*time.Millisecond)
	require.Contains(t, out.String(), "yours 26.7")
	cancel()
	require.NoError(t, <-ended)
}
