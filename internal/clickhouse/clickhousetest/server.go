// Package clickhousetest gives tests a real ClickHouse, and proxies that break
// the way to it.
//
// The server is the one WH_TEST_CLICKHOUSE names by its HTTP address, else cmd/clickhouse-dev. Where there is none a test is skipped with the
// reason, and fails under CI=true.
//
// The library that clickhouse-dev runs ends when a native login is refused; over
// HTTP it survives that. So the server speaks HTTP alone, and a test of the native
// protocol takes one of its own: StartNative.
package clickhousetest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a running ClickHouse and a database of the test's own on it.
type Server struct {
	Host       string
	HTTPPort   int
	NativeAddr string // host:port; "" unless it is from StartNative
	Database   string
	process    *process // nil when somebody else started the server
	private    bool
}

// HTTPAddr is host:port of the HTTP interface.
func (s *Server) HTTPAddr() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.HTTPPort)) }

// Start returns the server that this test binary shares, with a fresh database
// that is dropped when the test ends. The server ends with the process.
func Start(t testing.TB) *Server {
	t.Helper()
	shared, err := sharedServer()
	if err != nil {
		unavailable(t, err)
	}
	s := &Server{Host: shared.Host, HTTPPort: shared.HTTPPort, process: shared.process}
	s.createDatabase(t)
	t.Cleanup(func() { _, _ = s.post("DROP DATABASE IF EXISTS "+s.Database+" SYNC", "default") })
	return s
}

// StartPrivate starts a server for this test alone, which it may Stop, Kill and
// Restart. It ends with the test.
func StartPrivate(t testing.TB) *Server {
	t.Helper()
	return startPrivate(t, false)
}

// StartNative is StartPrivate with a port for the native protocol.
func StartNative(t testing.TB) *Server {
	t.Helper()
	return startPrivate(t, true)
}

func startPrivate(t testing.TB, native bool) *Server {
	t.Helper()
	p, err := launch(t.TempDir(), false, native)
	if err != nil {
		unavailable(t, err)
	}
	s := serverOf(p)
	s.private = true
	t.Cleanup(p.kill)
	s.createDatabase(t)
	return s
}

// Stop ends the server in order and waits for it.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.mustBePrivate(t, "Stop")
	s.process.stop()
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.mustBePrivate(t, "Kill")
	s.process.kill()
}

// Restart starts the server again over its data and on its ports. One that
// still runs is stopped first.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mustBePrivate(t, "Restart")
	s.process.stop()
	// The ports are the server's own from before; another's connection may hold
	// one for a moment.
	deadline := time.Now().Add(20 * time.Second)
	err := s.process.start()
	for portTaken(err) && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
		err = s.process.start()
	}
	if err != nil {
		t.Fatalf("restart ClickHouse: %v", err)
	}
}

func (s *Server) mustBePrivate(t testing.TB, what string) {
	t.Helper()
	if !s.private {
		t.Fatalf("%s would take the server from the other tests of this package: use StartPrivate", what)
	}
}

// Once per test binary: a server takes longer to start than most tests run.
//
//nolint:gochecknoglobals // the tests of a binary have nothing but this in common
var (
	sharedServer = sync.OnceValues(startShared)
	devTool      = sync.OnceValues(buildDevTool)
)

func startShared() (*Server, error) {
	if named := os.Getenv("WH_TEST_CLICKHOUSE"); named != "" {
		return external(named)
	}
	dir, err := os.MkdirTemp("", "clickhousetest-")
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	p, err := launch(dir, true, false)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return serverOf(p), nil
}

func serverOf(p *process) *Server {
	s := &Server{Host: "127.0.0.1", HTTPPort: p.httpPort, process: p}
	if p.native {
		s.NativeAddr = net.JoinHostPort(s.Host, strconv.Itoa(p.tcpPort))
	}
	return s
}

func (s *Server) createDatabase(t testing.TB) {
	t.Helper()
	s.Database = "test_" + strings.ToLower(rand.Text())
	if _, err := s.post("CREATE DATABASE "+s.Database+" ENGINE = Atomic", "default"); err != nil {
		t.Fatalf("create the test's database: %v", err)
	}
}

// unavailable skips a test that cannot have a server, except where everything
// has to run. A server that does not start fails it.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNoServer) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	t.Fatal(err)
}
