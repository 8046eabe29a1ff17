// Package natstest runs real NATS servers for tests: processes of the pinned
// server, one or a cluster of them, that can be killed, stopped, frozen and
// started again. They end with the test, and with the tests' process.
package natstest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// Cluster is one server or several.
type Cluster struct {
	Nodes []*Node
}

// Options of Start.
type Options struct {
	// Nodes is how many servers there are; 0 is one. Several form a cluster.
	Nodes int
	// Config is appended to each server's configuration.
	Config string
}

// Start runs servers until the test ends, and waits until JetStream answers
// where clients need no credentials.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, stop, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if !strings.Contains(o.Config, "authorization") && !strings.Contains(o.Config, "accounts") && !strings.Contains(o.Config, "tls") {
		c.Ready(t)
	}
	return c
}

// Run is Start without a test, for servers that a whole package shares.
func Run(o Options) (c *Cluster, stop func(), err error) {
	tool, err := Server()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "wh-nats-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a store: %w", err)
	}
	c = &Cluster{}
	stop = func() {
		for _, n := range c.Nodes {
			n.Kill()
		}
		_ = os.RemoveAll(dir)
	}
	// A port that was free may have another owner by the time it is bound.
	for range 3 {
		if err = c.run(tool, dir, o); err == nil {
			return c, stop, nil
		}
		for _, n := range c.Nodes {
			n.Kill()
		}
	}
	stop()
	return nil, nil, err
}

func (c *Cluster) run(tool, dir string, o Options) error {
	count := max(o.Nodes, 1)
	ports, err := freePorts(2 * count)
	if err != nil {
		return err
	}
	c.Nodes = nil
	var routes []string
	for i := range count {
		routes = append(routes, fmt.Sprintf("%q", "nats://127.0.0.1:"+strconv.Itoa(ports[count+i])))
	}
	for i := range count {
		n := &Node{
			Name: "n" + strconv.Itoa(i), Process: processtest.Process{Tool: tool, Dir: filepath.Join(dir, strconv.Itoa(i))},
			client: ports[i], routes: ports[count+i], extra: o.Config,
		}
		if count > 1 {
			n.clustered = fmt.Sprintf("cluster { name: test, listen: \"127.0.0.1:%d\", routes: [%s] }\n", n.routes, strings.Join(routes, ", "))
		}
		if err := os.MkdirAll(n.Dir, 0o755); err != nil {
			return fmt.Errorf("make a store: %w", err)
		}
		if err := n.start(); err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
	}
	return nil
}

// freePorts finds ports that nobody listens on, all different.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		port, err := processtest.FreePort()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	return ports, nil
}

// URLs lists where clients connect.
func (c *Cluster) URLs() []string {
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, n.URL())
	}
	return urls
}

// Connect returns a connection that outlives restarts, closed when the test
// ends.
func (c *Cluster) Connect(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	opts = append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectBufSize(-1), nats.Timeout(10 * time.Second),
	}, opts...)
	nc, err := nats.Connect(strings.Join(c.URLs(), ","), opts...)
	if err != nil {
		t.Fatalf("connect to NATS: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// JetStream returns an operator's view of the cluster.
func (c *Cluster) JetStream(t testing.TB, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(c.Connect(t, opts...), jetstream.WithDefaultTimeout(20*time.Second))
	if err != nil {
		t.Fatalf("open JetStream: %v", err)
	}
	return js
}

// Ready waits until JetStream answers and, in a cluster, knows every server.
func (c *Cluster) Ready(t testing.TB, opts ...nats.Option) {
	t.Helper()
	js := c.JetStream(t, opts...)
	Await(t, "JetStream answers", func(ctx context.Context) error {
		if _, err := js.AccountInfo(ctx); err != nil {
			return err
		}
		return c.enough(ctx, js)
	})
}

// enough is nil once a stream can have a replica on each server.
func (c *Cluster) enough(ctx context.Context, js jetstream.JetStream) error {
	const name = "natstest_ready"
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Replicas: len(c.Nodes)})
	if err != nil {
		return err
	}
	return js.DeleteStream(ctx, name)
}

// Leader returns the node that leads a stream.
func (c *Cluster) Leader(t testing.TB, js jetstream.JetStream, stream string) *Node {
	t.Helper()
	var leader *Node
	Await(t, "stream "+stream+" has a leader", func(ctx context.Context) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		info := s.CachedInfo()
		if info.Cluster == nil || len(c.Nodes) == 1 {
			leader = c.Nodes[0]
			return nil
		}
		for _, n := range c.Nodes {
			if n.Name == info.Cluster.Leader {
				leader = n
				return nil
			}
		}
		return fmt.Errorf("leader is %q", info.Cluster.Leader)
	})
	return leader
}

// StepDown has a stream's leader give up its place.
func (c *Cluster) StepDown(t testing.TB, nc *nats.Conn, stream string) {
	t.Helper()
	// The answer may get lost with the leader.
	_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, 2*time.Second)
}

// Await calls ok until it returns nil, for a minute at most.
func Await(t testing.TB, what string, ok func(context.Context) error) {
	t.Helper()
	var err error
	for end := time.Now().Add(processtest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err = ok(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatalf("waited too long until %s: %v", what, err)
}
