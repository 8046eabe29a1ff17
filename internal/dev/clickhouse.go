package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = time.Second
	// maxLaunches bounds the ports that are tried.
	maxLaunches = 3
)

// clickhouse is the ClickHouse that dev uses: one it started, or one that runs
// already.
type clickhouse struct {
	host    string
	http    int // its port
	version string
	kind    string

	// Set before the process starts, when dev started one.
	dir, log string
	say      *progress
	// exited is closed when the process has ended for good; exitErr is set
	// before. unexpectedExit gets one error unless that was asked for.
	exited         chan struct{}
	exitErr        error
	unexpectedExit chan error

	mu       sync.Mutex
	process  *exec.Cmd // nil when dev started none
	stdin    io.Closer
	stopping bool
	ready    bool
}

// startClickHouse uses the server that was named, or starts one: a clickhouse
// on PATH, or else clickhouse-dev.
func startClickHouse(ctx context.Context, o Options, say *progress) (*clickhouse, error) {
	if o.ClickHouse != "" {
		return useClickHouse(ctx, o)
	}
	return launch(ctx, o, say, func() int { return freePort(8123) })
}

// launch starts one on a port that was free a moment ago, and on the next one when
// another program, such as another dev, was quicker.
func launch(ctx context.Context, o Options, say *progress, free func() int) (*clickhouse, error) {
	for attempt := 1; ; attempt++ {
		port := free()
		c, err := launchOn(ctx, o, say, port)
		if err == nil || attempt == maxLaunches || freePort(port) == port {
			return c, err
		}
	}
}

func launchOn(ctx context.Context, o Options, say *progress, port int) (*clickhouse, error) {
	dir := filepath.Join(o.Dir, "clickhouse")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make ClickHouse's directory: %w", err)
	}
	c := &clickhouse{
		host: loopback, http: port,
		dir: dir, log: filepath.Join(o.Dir, "clickhouse.log"), say: say,
		exited: make(chan struct{}), unexpectedExit: make(chan error, 1),
	}
	if _, kind, err := c.command(); err != nil {
		return nil, err
	} else {
		c.kind = kind
	}
	say.update("starting ClickHouse (%s)…", c.kind)
	started := make(chan error)
	go c.supervise(started)
	if err := <-started; err != nil {
		return nil, err
	}
	if err := c.waitReady(ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("start ClickHouse (%s): %w; its log is %s", c.kind, err, c.log)
	}
	return c, nil
}

func useClickHouse(ctx context.Context, o Options) (*clickhouse, error) {
	host, _, err := net.SplitHostPort(o.ClickHouse) // as clickhouse.addr, whose port is not used
	if err != nil {
		host = strings.Trim(o.ClickHouse, "[]")
	}
	c := &clickhouse{host: host, http: o.ClickHouseHTTP, kind: "yours"}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	version, err := c.query(ctx, "SELECT version()")
	if err != nil {
		return nil, fmt.Errorf("--clickhouse %s: ask its HTTP port %d (--clickhouse-http-port): %w", o.ClickHouse, c.http, err)
	}
	c.version = version
	return c, nil
}

// command prefers the real binary, and else the engine as a library.
func (c *clickhouse) command() (*exec.Cmd, string, error) {
	if binary, err := exec.LookPath("clickhouse"); err == nil {
		file, err := writeServerConfig(c.dir, c.http)
		return exec.Command(binary, "server", "--config-file="+file), "clickhouse server", err
	}
	binary, err := besideExecutable("clickhouse-dev")
	if err != nil {
		return nil, "", errors.New("no ClickHouse found: put a clickhouse binary on PATH, " +
			"name a running one with --clickhouse, or run `make run`, which fetches one")
	}
	return exec.Command(binary, "--die-with-parent", "--path="+c.dir, "--http-port="+strconv.Itoa(c.http)), "clickhouse-dev", nil
}

func besideExecutable(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
}

// start runs the process in a group of its own, so that a Ctrl-C reaches it
// only after the server has written what it holds. Its standard input stays
// open for as long as this process lives.
func (c *clickhouse) start() (*exec.Cmd, error) {
	cmd, _, err := c.command()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, ownGroup()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start ClickHouse: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil, errors.New("it was stopped")
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start ClickHouse: %w", err)
	}
	c.process, c.stdin = cmd, stdin
	return cmd, nil
}

// waitReady asks until ClickHouse answers.
func (c *clickhouse) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		version, err := c.ownVersion(ctx)
		if err == nil {
			c.version = version
			c.mu.Lock()
			c.ready = true
			c.mu.Unlock()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it did not answer: %w", err)
		case <-c.exited:
			return fmt.Errorf("it ended: %w", c.exitErr)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ownVersion is the version of the ClickHouse over c.dir: who else answers on its
// port is another one.
func (c *clickhouse) ownVersion(ctx context.Context) (string, error) {
	answer, err := c.query(ctx, "SELECT version(), path FROM system.disks WHERE name = 'default' FORMAT TSVRaw")
	if err != nil {
		return "", err
	}
	version, dir, _ := strings.Cut(answer, "\t")
	own, err := os.Stat(c.dir)
	if err != nil {
		return "", fmt.Errorf("look for ClickHouse's directory: %w", err)
	}
	if found, err := os.Stat(dir); err != nil || !os.SameFile(own, found) {
		return "", fmt.Errorf("on port %d is the ClickHouse of %q", c.http, dir)
	}
	return version, nil
}

// ended yields an error when a ClickHouse that dev started ends by itself.
func (c *clickhouse) ended() <-chan error { return c.unexpectedExit }

// stop ends the ClickHouse that dev started, and waits for it.
func (c *clickhouse) stop() {
	c.mu.Lock()
	c.stopping = true
	process, stdin := c.process, c.stdin
	c.mu.Unlock()
	if process == nil {
		return
	}
	_ = process.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		_ = process.Process.Kill()
		<-c.exited
	}
	_ = stdin.Close()
}

// query runs a statement over HTTP and returns the answer without its last
// line end.
func (c *clickhouse) query(ctx context.Context, statement string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url(), strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if urlError, ok := errors.AsType[*url.Error](err); ok {
			err = urlError.Err
		}
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answered %s: %s", response.Status, bytes.TrimSpace(body))
	}
	return strings.TrimRight(string(body), "\n"), nil
}

func (c *clickhouse) url() string {
	return "http://" + net.JoinHostPort(c.host, strconv.Itoa(c.http)) + "/"
}

// freePort is the wanted port when it is free, or else one that is.
func freePort(wanted int) int {
	for _, port := range []int{wanted, 0} {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = listener.Close()
		if addr, ok := listener.Addr().(*net.TCPAddr); ok {
			return addr.Port
		}
	}
	return wanted
}

// jsonString renders s as a JSON string.
func jsonString(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("dev: a string that does not marshal: " + err.Error())
	}
	return string(text)
}
