package natstest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// Node is one server, a process that can be killed. It keeps its ports and its
// store over restarts.
type Node struct {
	processtest.Process
	// Name is the server's name, as streams call their leader.
	Name string

	client, routes   int
	extra, clustered string
}

// URL is where clients connect, without credentials.
func (n *Node) URL() string { return "nats://" + n.Addr() }

// Addr is URL's host and port.
func (n *Node) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.client)) }

func (n *Node) config() string {
	return fmt.Sprintf("server_name: %s\nlisten: %q\nmax_control_line: 32KB\njetstream { store_dir: %q, max_mem: 256MB, max_file: 64GB, sync_interval: always }\n%s%s",
		n.Name, n.Addr(), filepath.Join(n.Dir, "store"), n.clustered, n.extra)
}

// configure writes what the server reads.
func (n *Node) configure() (file string, err error) {
	file = filepath.Join(n.Dir, "server.conf")
	if err := os.WriteFile(file, []byte(n.config()), 0o600); err != nil {
		return "", fmt.Errorf("configure nats-server: %w", err)
	}
	return file, nil
}

// Reconfigure has the running server take another Options.Config.
func (n *Node) Reconfigure(t testing.TB, config string) {
	t.Helper()
	n.extra = config
	if _, err := n.configure(); err != nil {
		t.Fatal(err)
	}
	n.Reload()
}

// start runs the server until it takes connections.
func (n *Node) start() error {
	file, err := n.configure()
	if err != nil {
		return err
	}
	n.Answers = func() bool {
		c, err := net.DialTimeout("tcp", n.Addr(), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	return n.Run("-c", file, "-l", n.LogFile())
}

// Start runs a server that was stopped or killed, over the store it had.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
}
