package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// TestMain lets the test binary be the command: the engine has to have a
// process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("CLICKHOUSE_DEV_RUN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// server is the command as a process.
type server struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer
	HTTP    int `json:"http_port"`
	TCP     int `json:"tcp_port"`
	PID     int
	Version string
}

func launch(t *testing.T, args ...string) *server {
	t.Helper()
	if _, err := findLibrary(os.Getenv("CLICKHOUSE_LIB")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if !slices.Contains(args, "--http-port") { // else another's connection may have the one that it finds
		port, err := processtest.FreePort()
		require.NoError(t, err)
		args = append(args, "--http-port", strconv.Itoa(port))
	}
	s := &server{cmd: exec.Command(os.Args[0], args...)}
	s.cmd.Env = append(os.Environ(), "CLICKHOUSE_DEV_RUN=1")
	s.cmd.Stderr = &s.stderr
	var err error
	s.stdin, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	decoder := json.NewDecoder(stdout)
	require.NoError(t, decoder.Decode(s), "stderr: %s", &s.stderr)
	return s
}

func (s *server) ask(t *testing.T, sql string) string {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second}
	resp, err := client.Post(fmt.Sprintf("http://127.0.0.1:%d/", s.HTTP), "text/plain", strings.NewReader(sql))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

func (s *server) wait(t *testing.T) int {
	t.Helper()
	done := make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it did not end")
	}
	code := s.cmd.ProcessState.ExitCode()
	if code != 0 {
		t.Logf("%s\n%s", s.cmd.ProcessState, &s.stderr)
	}
	return code
}

func TestItKeepsItsDataOverEveryKindOfEnd(t *testing.T) {
	dir := t.TempDir()
	s := launch(t, "--path", dir)
	require.Equal(t, s.cmd.Process.Pid, s.PID)
	require.Regexp(t, `^\d+\.\d+`, s.Version)
	require.Empty(t, s.ask(t, "CREATE TABLE t (n UInt8) ENGINE = MergeTree ORDER BY n"))
	require.Empty(t, s.ask(t, "CREATE DATABASE other"))
	require.Empty(t, s.ask(t, "CREATE TABLE other.t (n UInt8) ENGINE = MergeTree ORDER BY n"))
	ends := map[string]func(*server){
		"SIGTERM": func(s *server) { _ = s.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":  func(s *server) { _ = s.cmd.Process.Signal(os.Interrupt) },
		"SIGKILL": func(s *server) { _ = s.cmd.Process.Kill() },
	}
	rows := 0
	for name, end := range ends {
		rows++
		require.Empty(t, s.ask(t, "INSERT INTO t VALUES (1)"))
		require.Empty(t, s.ask(t, "INSERT INTO other.t VALUES (1)"))
		end(s)
		code := s.wait(t)
		if name != "SIGKILL" {
			require.Zero(t, code, name)
		}
		s = launch(t, "--path", dir)
		require.Equal(t, fmt.Sprint(rows), s.ask(t, "SELECT count() FROM t"), name)
		require.Equal(t, fmt.Sprint(rows), s.ask(t, "SELECT count() FROM other.t"), name)
	}
}

func TestItEndsWithItsParentAndLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := launch(t, "--path", dir, "--die-with-parent", "--rm", "--http-port", "0")
	require.NoError(t, s.stdin.Close())
	require.Zero(t, s.wait(t))
	require.NoDirExists(t, dir)
}

func TestAStatementThatRunsDoesNotHoldItUp(t *testing.T) {
	s := launch(t, "--path", t.TempDir())
	go func() {
		resp, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/", s.HTTP), "text/plain", strings.NewReader("SELECT sleepEachRow(1) FROM numbers(60) SETTINGS max_block_size = 1"))
		if err == nil {
			resp.Body.Close()
		}
	}()
	require.Eventually(t, func() bool {
		return s.ask(t, "SELECT count() FROM system.processes WHERE query LIKE '%sleepEachRow(1)%' AND query NOT LIKE '%system%'") == "1"
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, s.wait(t))
}

// TestItSurvivesClientsThatVanish resets connections wherever a request may be.
func TestItSurvivesClientsThatVanish(t *testing.T) {
	s := launch(t, "--path", t.TempDir())
	require.Empty(t, s.ask(t, "CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree ORDER BY n"))
	post := func(sql, length string) string {
		return "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + "\r\n\r\n" + sql
	}
	whole := func(sql string) string { return post(sql, fmt.Sprint(len(sql))) }
	insert := "INSERT INTO t FORMAT TSV\n" + strings.Repeat("1\tx\n", 20_000)
	requests := []struct {
		send string
		read int // bytes of the answer to wait for
	}{
		{"", 0},
		{"POST /?query=SEL", 0},
		{"POST / HTTP/1.1\r\nHost: x\r\n", 0},
		{post("SELECT ", "100"), 0},
		{post(insert, "10000000"), 0},
		{whole(insert), 0},
		{whole("SELECT 1"), 0},
		{whole("SELECT 1"), 1},
		{whole("SELECT sleep(0.2)"), 0},
		{whole("SELECT number, repeat('x', 100) FROM numbers(10000000)"), 100_000},
		{whole("SELECT sleepEachRow(0.5) FROM numbers(6) SETTINGS max_block_size = 1"), 0},
		{whole("SELECT 1") + "POST /?query=SEL", 1},
		{whole("SELECT nosuch"), 1},
		{"no HTTP at all\r\n\r\n", 0},
		{"\x16\x03\x01\x02\x00\x01", 0},
	}
	var clients sync.WaitGroup
	for worker := range 4 {
		clients.Go(func() {
			for i := range 6 * len(requests) {
				r := requests[(i+worker)%len(requests)]
				c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.HTTP))
				if !assert.NoError(t, err) {
					return
				}
				_, _ = io.WriteString(c, r.send)
				_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
				_, _ = io.ReadFull(c, make([]byte, r.read))
				if i%2 == 0 {
					time.Sleep(5 * time.Millisecond) // so that the engine waits for more
				}
				_ = c.(*net.TCPConn).SetLinger(0) // a reset, not an end
				_ = c.Close()
			}
		})
	}
	clients.Wait()
	require.Equal(t, "1", s.ask(t, "SELECT 1"))
	require.NoError(t, s.cmd.Process.Signal(syscall.Signal(0)), "the first process still runs")
	require.Empty(t, s.ask(t, "INSERT INTO t VALUES (2, 'y')"))
	require.Equal(t, "1", s.ask(t, "SELECT count() FROM t WHERE n = 2"))
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, s.wait(t))
}

func TestTheNativeProtocolIsOpenedWhenAskedFor(t *testing.T) {
	s := launch(t, "--path", t.TempDir())
	require.Zero(t, s.TCP)
	require.Equal(t, "", s.ask(t, "SELECT value FROM system.server_settings WHERE name = 'tcp_port' AND changed"))
	s = launch(t, "--path", t.TempDir(), "--native")
	require.NotZero(t, s.TCP)
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.TCP))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	port, err := processtest.FreePort()
	require.NoError(t, err)
	require.Equal(t, port, launch(t, "--path", t.TempDir(), "--tcp-port", fmt.Sprint(port)).TCP)
}

func TestUsersComeFromAFile(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users.xml")
	require.NoError(t, os.WriteFile(users, []byte(`<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users>
<default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
<ann><password>secret</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></ann></users></clickhouse>`), 0o600))
	s := launch(t, "--path", t.TempDir(), "--users", users)
	for password, status := range map[string]int{"secret": 200, "wrong": 403} {
		req, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", s.HTTP), strings.NewReader("SELECT 1"))
		require.NoError(t, err)
		req.Header.Set("X-ClickHouse-User", "ann")
		req.Header.Set("X-ClickHouse-Key", password)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, status, resp.StatusCode, password)
	}
}

func TestFaultsAreNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	busy := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	lib := filepath.Join(t.TempDir(), "lib.so")
	require.NoError(t, os.WriteFile(lib, []byte("no library"), 0o600))
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "--path is required"},
		{[]string{"--nosuch"}, 2, "nosuch"},
		{[]string{"--help"}, 0, "free one"},
		{[]string{"--path", dir, "--lib", "/nonexistent/lib.so"}, 1, "/nonexistent/lib.so"},
		{[]string{"--path", lib, "--lib", lib}, 1, "data directory"},
		{[]string{"--path", dir, "--lib", lib, "--users", "/nonexistent/users.xml"}, 1, "users.xml"},
		{[]string{"--path", dir, "--lib", lib, "--http-port", busy}, 1, "HTTP port: listen tcp 127.0.0.1:" + busy},
		{[]string{"--path", dir, "--lib", lib, "--tcp-port", busy}, 1, "native protocol port"},
	} {
		var stderr bytes.Buffer
		require.Equal(t, c.code, run(c.args, strings.NewReader(""), io.Discard, &stderr), "%v", c.args)
		require.Contains(t, stderr.String(), c.says)
	}
}

func TestTheLibraryIsFoundAboveTheWorkingDirectory(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	require.NoError(t, os.MkdirAll(deep, 0o755))
	require.Empty(t, searchUp(deep))
	for _, version := range []string{"26.1", "26.7"} {
		lib := filepath.Join(root, ".cache", "clickhouse", version, "libchdb.so")
		require.NoError(t, os.MkdirAll(filepath.Dir(lib), 0o755))
		require.NoError(t, os.WriteFile(lib, nil, 0o600))
	}
	require.Equal(t, filepath.Join(root, ".cache", "clickhouse", "26.7", "libchdb.so"), searchUp(deep))
}
