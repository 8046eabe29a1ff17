package clickhousetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// startBudget bounds a server's start on a busy machine.
const startBudget = 90 * time.Second

// process is one server process over one directory. It reads its standard
// input from this process and stops when that ends, however it ends.
type process struct {
	dir      string
	users    string
	remove   bool
	native   bool
	httpPort int
	tcpPort  int // 0 without native

	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.WriteCloser
	gone  chan struct{} // closed once cmd has been waited for
	log   *tail         // what cmd complained about
}

// launch starts a server over dir, which it removes at its end when remove is
// set.
func launch(dir string, remove, native bool) (*process, error) {
	p := &process{dir: dir, users: filepath.Join(dir, "users.xml"), remove: remove, native: native}
	if err := os.WriteFile(p.users, []byte(usersXML), 0o600); err != nil {
		return nil, fmt.Errorf("write users.xml: %w", err)
	}
	var err error
	for range 4 {
		if err = p.findPorts(); err != nil {
			return nil, err
		}
		if err = p.start(); !portTaken(err) {
			break
		}
	}
	return p, err
}

// findPorts finds ports that stay the server's over its restarts.
func (p *process) findPorts() (err error) {
	if p.httpPort, err = processtest.FreePort(); err == nil && p.native {
		p.tcpPort, err = processtest.FreePort()
	}
	return err
}

// portTaken says that a port which was free had another owner by the time the
// engine bound it.
func portTaken(err error) bool {
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "address already in use")
}

// start runs the server and waits until it answers.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd, err := p.command()
	if err != nil {
		return err
	}
	stderr := &tail{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start ClickHouse: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start ClickHouse: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start ClickHouse: %w", err)
	}
	ready := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		ready <- p.readLine(stdout)
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
		close(gone)
	}()
	select {
	case err = <-ready:
	case <-time.After(startBudget):
		err = fmt.Errorf("no answer within %s", startBudget)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		<-gone
		return fmt.Errorf("start ClickHouse: %w: %s", err, stderr)
	}
	p.cmd, p.stdin, p.gone, p.log = cmd, stdin, gone, stderr
	return nil
}

// readLine reads the line with which clickhouse-dev says that it answers.
func (p *process) readLine(stdout io.Reader) error {
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return errors.New("it ended before it answered")
	}
	var ports struct {
		HTTPPort int `json:"http_port"`
		TCPPort  int `json:"tcp_port"`
	}
	if err := json.Unmarshal(line, &ports); err != nil {
		return fmt.Errorf("it said %q: %w", line, err)
	}
	p.httpPort, p.tcpPort = ports.HTTPPort, ports.TCPPort
	return nil
}

// state is what became of the server, for the message of a test that fails.
func (p *process) state() string {
	if p == nil {
		return "the server is somebody else's"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return "the server was stopped"
	}
	select {
	case <-p.gone:
		return fmt.Sprintf("the server ended: %s: %s", p.cmd.ProcessState, p.log)
	default:
		return "the server runs: " + p.log.String()
	}
}

// stop ends the server in order and waits for it.
func (p *process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.stdin.Close()
	select {
	case <-p.gone:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
	p.cmd = nil
}

// kill ends the server at once and waits for it.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.gone
	_ = p.stdin.Close()
	p.cmd = nil
}

// external is a server that somebody else runs: "http://host:8123".
func external(named string) (*Server, error) {
	u, err := url.Parse(named)
	if err != nil {
		return nil, fmt.Errorf("WH_TEST_CLICKHOUSE: %w", err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return nil, fmt.Errorf("WH_TEST_CLICKHOUSE: port of %q: %w", named, err)
	}
	return &Server{Host: u.Hostname(), HTTPPort: port}, nil
}

// tail keeps the last of what a process complains about.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 8<<10; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
