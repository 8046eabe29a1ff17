// Package redistest starts real Redis and Valkey servers for tests, as processes
// that can be killed: one, a primary with replicas and sentinels, or a cluster. They
// listen on loopback and end with the test.
package redistest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

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
	processtest.Process
	Port int

	args   []string
	client *goredis.Client
}

// newServer makes one that does not run yet.
func newServer(t testing.TB, flavor Flavor, args ...string) *Server {
	t.Helper()
	s := &Server{Process: processtest.Process{Tool: flavor.tool(t), Dir: t.TempDir()}, Port: FreePort(t), args: args}
	s.client = Client(s.Addr())
	s.Answers = func() bool {
		err := s.client.Ping(context.Background()).Err()
		return err == nil || strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "MASTERDOWN")
	}
	t.Cleanup(func() {
		_ = s.client.Close()
		s.Kill()
	})
	return s
}

// Start starts a server with further arguments, like "--maxmemory", "10mb".
func Start(t testing.TB, flavor Flavor, args ...string) *Server {
	t.Helper()
	s := newServer(t, flavor, args...)
	s.Start(t)
	return s
}

// Client is a client of a server, with none of the product's options.
func Client(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, DisableIdentity: true, Protocol: 2, ReadTimeout: processtest.Patience, DialTimeout: processtest.Patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// FreePort returns a port that nobody listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := processtest.FreePort()
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

// Save writes the server's snapshot, once one that is being written for a replica is.
func (s *Server) Save(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := s.client.Do(context.Background(), "SAVE").Err()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "in progress") || time.Now().After(end) {
			t.Fatalf("save the server on port %d: %v", s.Port, err)
		}
	}
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
	args := append([]string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.Dir, "--logfile", s.LogFile(), "--daemonize", "no",
	}, s.args...)
	if len(s.args) > 0 && strings.HasSuffix(s.args[0], ".conf") {
		args = s.args
	}
	return s.Run(args...)
}

// await polls until ok.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(processtest.Patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, processtest.Patience)
		}
	}
}
