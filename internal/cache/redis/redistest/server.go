// Package redistest starts real Redis and Valkey servers for tests, as processes
// that can be killed: one, a primary with replicas and sentinels, or a cluster. They
// listen on loopback and end with the test.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// patience bounds what servers are waited for on a busy machine.
const patience = 60 * time.Second

// Flavor is a program that speaks as Redis does.
type Flavor string

// The flavors.
const (
	Redis  Flavor = "redis"
	Valkey Flavor = "valkey"
)

// Each runs a test with each flavor that is installed, beside each other and other
// tests: most of their time they wait. In CI all are installed.
func Each(t *testing.T, run func(t *testing.T, flavor Flavor)) {
	t.Parallel()
	for _, flavor := range []Flavor{Redis, Valkey} {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			run(t, flavor)
		})
	}
}

// tool finds the program; without it the test is skipped, in CI it fails.
func (f Flavor) tool(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath(string(f) + "-server")
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%s-server is not installed: see scripts/deps.sh", f)
	default:
		t.Skipf("skipped: %s-server is not installed: see scripts/deps.sh", f)
	}
	return path
}

// Server is one server. It keeps its port and its folder over restarts.
type Server struct {
	Port int

	flavor Flavor
	tool   string
	dir    string
	args   []string
	client *goredis.Client

	mu   sync.Mutex
	cmd  *exec.Cmd // nil while it does not run
	gone chan struct{}
}

// Start starts a server with further arguments, like "--maxmemory", "10mb".
func Start(t testing.TB, flavor Flavor, args ...string) *Server {
	t.Helper()
	s := &Server{Port: FreePort(t), flavor: flavor, tool: flavor.tool(t), dir: t.TempDir(), args: args}
	s.client = Client(s.Addr())
	t.Cleanup(func() {
		_ = s.client.Close()
		s.Kill()
	})
	s.Start(t)
	return s
}

// Client is a client of a server, with none of the product's options.
func Client(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, DisableIdentity: true, Protocol: 2, ReadTimeout: patience, DialTimeout: patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// FreePort returns a port that nobody listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Addr is host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Client is a client of the server that ends with it.
func (s *Server) Client() *goredis.Client { return s.client }

// Do runs a command, which must succeed.
func (s *Server) Do(t testing.TB, command ...any) any {
	t.Helper()
	answer, err := s.client.Do(context.Background(), command...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatalf("%v on port %d: %v", command, s.Port, err)
	}
	return answer
}

// Info is a field of INFO, "" for none.
func (s *Server) Info(t testing.TB, section, field string) string {
	t.Helper()
	text, _ := s.Do(t, "INFO", section).(string)
	return fieldOf(text, field)
}

// fieldOf is a field of an answer that has one a line.
func fieldOf(text, field string) string {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}

// Start runs a server that was stopped or killed, over the data it has.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return fmt.Errorf("the server on port %d runs", s.Port)
	}
	args := append([]string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", s.logFile(), "--daemonize", "no",
	}, s.args...)
	if len(s.args) > 0 && strings.HasSuffix(s.args[0], ".conf") {
		args = s.args
	}
	cmd := exec.Command(s.tool, args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, attributes()
	gone, started := make(chan struct{}), make(chan error)
	go func() {
		// The death signal is sent when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(gone)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", s.tool, err)
	}
	s.cmd, s.gone = cmd, gone
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-gone:
			s.cmd = nil
			return fmt.Errorf("%s ended: %s", s.tool, s.tail())
		default:
		}
		err := s.client.Ping(context.Background()).Err()
		if err == nil || strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "MASTERDOWN") {
			return nil
		}
	}
	return fmt.Errorf("%s did not answer within %s: %s", s.tool, patience, s.tail())
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

// tail is the end of the server's log.
func (s *Server) tail() string {
	data, _ := os.ReadFile(s.logFile())
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server in order.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Freeze halts the server until Thaw; its connections stay open.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw has a frozen server go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(sig)
	}
}

func (s *Server) end(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.gone:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.gone
	}
	s.cmd = nil
}

// await polls until ok.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}
