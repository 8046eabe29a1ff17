package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	natsNodes = 3
	// clusterStart bounds the start of the servers and processes.
	clusterStart = 2 * time.Minute
	// clusterStop is how long a process may take to stop.
	clusterStop = 20 * time.Second
)

// Cluster is a Server of several processes with roles of their own, behind a proxy
// that asks them in turn, on a NATS cluster of three.
type Cluster struct {
	// Program is wavehouse itself, NATS the server's binary; "" is nats-server beside
	// it, or on PATH.
	Program, NATS string
	// Processes is how many there are, two or more.
	Processes int
	// Env is their environment.
	Env []string
	// Apply makes the topology on the servers at urls, which may not be ready yet.
	Apply func(ctx context.Context, urls []string) error
	// Say tells of what is running.
	Say func(format string, args ...any)
}

// roles of the process n: the last one writes alone, so that there is one.
func (c *Cluster) roles(n int) string {
	switch n {
	case c.Processes - 1:
		return "ingest"
	case 0:
		return "api,ingest,sweeper"
	}
	return "api,ingest"
}

// Run implements Server.
func (c *Cluster) Run(ctx context.Context, o ServerOptions, ready func()) error {
	tool := c.NATS
	if tool == "" {
		var err error
		if tool, err = besideExecutable("nats-server"); err != nil {
			return fmt.Errorf("no nats-server found: run `make cluster`, which builds one, or name it with --nats-server: %w", err)
		}
	}
	log, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	family := newFamily(log)
	defer family.stop()

	urls, err := c.startNATS(family, tool, o.DataDir)
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, clusterStart)
	defer cancel()
	if err := c.apply(starting, family, urls); err != nil {
		return err
	}
	backends, err := c.startProcesses(family, o, urls)
	if err != nil {
		return err
	}
	if err := await(starting, family, backends); err != nil {
		return err
	}
	return c.serve(ctx, family, o, backends, ready)
}

// startNATS starts servers whose stores are kept.
func (c *Cluster) startNATS(family *family, tool, dir string) (urls []string, err error) {
	ports, err := freePorts(2 * natsNodes)
	if err != nil {
		return nil, err
	}
	var routes []string
	for n := range natsNodes {
		urls = append(urls, "nats://"+address(ports[n]))
		routes = append(routes, strconv.Quote("nats://"+address(ports[natsNodes+n])))
	}
	for n := range natsNodes {
		store := filepath.Join(dir, "nats-"+strconv.Itoa(n))
		if err := os.MkdirAll(store, 0o750); err != nil {
			return nil, fmt.Errorf("make a store: %w", err)
		}
		config := fmt.Sprintf("server_name: n%d\nlisten: %q\njetstream { store_dir: %q, sync_interval: always }\ncluster { name: dev, listen: %q, routes: [%s] }\n",
			n, address(ports[n]), store, address(ports[natsNodes+n]), strings.Join(routes, ", "))
		file := filepath.Join(store, "nats.conf")
		if err := os.WriteFile(file, []byte(config), 0o640); err != nil {
			return nil, fmt.Errorf("write the configuration of a NATS server: %w", err)
		}
		if err := family.start("NATS server "+strconv.Itoa(n), exec.Command(tool, "-c", file)); err != nil {
			return nil, err
		}
	}
	return urls, nil
}

// apply makes the topology as soon as the servers have found each other.
func (c *Cluster) apply(ctx context.Context, family *family, urls []string) error {
	for {
		err := c.Apply(ctx, urls)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case dead := <-family.ended:
			return dead
		case <-ctx.Done():
			return fmt.Errorf("make the queue on the NATS cluster: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

// startProcesses returns where the processes answer that have the role api.
func (c *Cluster) startProcesses(family *family, o ServerOptions, urls []string) (backends []*url.URL, err error) {
	ports, err := freePorts(c.Processes)
	if err != nil {
		return nil, err
	}
	for n, port := range ports {
		cmd := exec.Command(c.Program, "serve", "--local-only")
		cmd.Env = append(append([]string(nil), c.Env...),
			"WH_SERVER_HOST="+loopback, "WH_SERVER_PORT="+strconv.Itoa(port), "WH_SETTINGS_DIR="+o.SettingsDir,
			"WH_DATA_DIR="+filepath.Join(o.DataDir, "process-"+strconv.Itoa(n)), "WH_INSTANCE_ID=dev-"+strconv.Itoa(n), "WH_ROLES="+c.roles(n),
			"WH_MQ_BACKEND=nats", "WH_COORD_BACKEND=nats", "WH_MQ_NATS_URLS="+strings.Join(urls, ","),
			"WH_DEDUPE_PEBBLE_SINGLE_REPLICA=true", "WH_STREAM_ID_KEY="+o.TokenSecret,
			"WH_AUTH_OPERATOR_KEY="+o.OperatorKey, "WH_AUTH_JWT_SECRET="+o.TokenSecret, "WH_LOG_FORMAT=json", "WH_SERVER_SHUTDOWN_TIMEOUT=2s")
		if err := family.start("process "+strconv.Itoa(n), cmd); err != nil {
			return nil, err
		}
		c.Say("process dev-%d: %s at http://%s", n, c.roles(n), address(port))
		if strings.HasPrefix(c.roles(n), "api") {
			backends = append(backends, &url.URL{Scheme: "http", Host: address(port)})
		}
	}
	return backends, nil
}

// await returns once every backend listens.
func await(ctx context.Context, family *family, backends []*url.URL) error {
	for _, at := range backends {
		for {
			conn, err := net.DialTimeout("tcp", at.Host, time.Second)
			if err == nil {
				_ = conn.Close()
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case dead := <-family.ended:
				return dead
			case <-ctx.Done():
				return fmt.Errorf("wait for the process at %s: %w", at.Host, errors.Join(context.Cause(ctx), err))
			}
		}
	}
	return nil
}

// serve answers on the one port, by one process after the other.
func (c *Cluster) serve(ctx context.Context, family *family, o ServerOptions, backends []*url.URL, ready func()) error {
	var turn atomic.Uint64
	proxy := &http.Server{
		Addr: net.JoinHostPort(o.Host, strconv.Itoa(o.Port)), ReadHeaderTimeout: 10 * time.Second,
		Handler: &httputil.ReverseProxy{
			FlushInterval: -1, // streams
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(backends[turn.Add(1)%uint64(len(backends))])
				r.Out.Host = r.In.Host // who asks by another's name is refused behind
			},
		},
	}
	listener, err := net.Listen("tcp", proxy.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(listener) }()
	ready()
	select {
	case <-ctx.Done():
	case err = <-family.ended:
	case err = <-served:
	}
	_ = proxy.Close()
	return err
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// freePorts finds ports that nobody listens on, all different.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a port: %w", err)
		}
		defer func() { _ = l.Close() }()
		at, err := netip.ParseAddrPort(l.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("find a port: %w", err)
		}
		ports = append(ports, int(at.Port()))
	}
	return ports, nil
}

// family is the processes that end with this one.
type family struct {
	log   *os.File
	ended chan error

	mu       sync.Mutex
	stopping bool
	children []*child
}

type child struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

func newFamily(log *os.File) *family { return &family{log: log, ended: make(chan error, 1)} }

// start runs a command, whose end by itself is told on ended.
func (f *family) start(name string, cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = f.log, f.log, ownGroup()
	child, started := &child{cmd: cmd, exited: make(chan struct{})}, make(chan error, 1)
	go func() {
		// The kernel ends a process together with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		close(child.exited)
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.stopping {
			select {
			case f.ended <- fmt.Errorf("%s ended (see %s): %w", name, f.log.Name(), cmp.Or(err, errors.New("it exited"))):
			default: // another was first
			}
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.children = append(f.children, child)
	return nil
}

// stop ends all, the last started first, so that what stands on others goes before
// them.
func (f *family) stop() {
	f.mu.Lock()
	f.stopping = true
	children := f.children
	f.mu.Unlock()
	for n := len(children) - 1; n >= 0; n-- {
		_ = children[n].cmd.Process.Signal(syscall.SIGTERM)
		if n > natsNodes {
			continue // processes end together, then the servers
		}
		for _, c := range children[n:] {
			select {
			case <-c.exited:
			case <-time.After(clusterStop):
				_ = c.cmd.Process.Kill()
				<-c.exited
			}
		}
	}
}
