package natstest

import (
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
)

// startBudget bounds a server's start, and its end, on a busy machine.
const startBudget = 60 * time.Second

// Node is one server, a process that can be killed. It keeps its ports and its
// store over restarts.
type Node struct {
	// Name is the server's name, as streams call their leader.
	Name string

	tool, dir        string
	client, routes   int
	extra, clustered string

	mu   sync.Mutex
	cmd  *exec.Cmd // nil while it does not run
	gone chan struct{}
}

// URL is where clients connect, without credentials.
func (n *Node) URL() string { return "nats://" + n.Addr() }

// Addr is URL's host and port.
func (n *Node) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.client)) }

func (n *Node) config() string {
	return fmt.Sprintf("server_name: %s\nlisten: %q\nmax_control_line: 32KB\njetstream { store_dir: %q, max_mem: 256MB, max_file: 64GB, sync_interval: always }\n%s%s",
		n.Name, n.Addr(), filepath.Join(n.dir, "store"), n.clustered, n.extra)
}

// start runs the server until it takes connections.
func (n *Node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return fmt.Errorf("nats-server %s runs", n.Name)
	}
	file := filepath.Join(n.dir, "server.conf")
	if err := os.WriteFile(file, []byte(n.config()), 0o600); err != nil {
		return fmt.Errorf("configure nats-server: %w", err)
	}
	cmd := exec.Command(n.tool, "-c", file, "-l", n.logFile())
	cmd.SysProcAttr = attributes()
	n.gone = make(chan struct{})
	started := make(chan error)
	go func() {
		// The death signal is sent when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(n.gone)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	n.cmd = cmd
	if err := n.await(); err != nil {
		n.endLocked(syscall.SIGKILL)
		return fmt.Errorf("start nats-server %s: %w: %s", n.Name, err, n.tail())
	}
	return nil
}

func (n *Node) await() error {
	for end := time.Now().Add(startBudget); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case <-n.gone:
			return errors.New("it ended")
		default:
		}
		if c, err := net.DialTimeout("tcp", n.Addr(), time.Second); err == nil {
			_ = c.Close()
			return nil
		}
	}
	return fmt.Errorf("it took no connection within %s", startBudget)
}

func (n *Node) logFile() string { return filepath.Join(n.dir, "server.log") }

// tail is the end of the server's log.
func (n *Node) tail() string {
	data, _ := os.ReadFile(n.logFile())
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Start runs a server that was stopped or killed, over the store it had.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the server at once, as kill -9 does.
func (n *Node) Kill() { n.end(syscall.SIGKILL) }

// Stop ends the server in order.
func (n *Node) Stop() { n.end(syscall.SIGTERM) }

// Freeze halts the server until Thaw; its connections stay open.
func (n *Node) Freeze() { n.signal(syscall.SIGSTOP) }

// Thaw has a frozen server go on.
func (n *Node) Thaw() { n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(s)
	}
}

func (n *Node) end(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.endLocked(s)
}

func (n *Node) endLocked(s syscall.Signal) {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(s)
	select {
	case <-n.gone:
	case <-time.After(startBudget):
		_ = n.cmd.Process.Kill()
		<-n.gone
	}
	n.cmd = nil
}
