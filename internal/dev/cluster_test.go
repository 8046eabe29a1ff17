package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if !standIn() {
		os.Exit(m.Run())
	}
}

// standIn is what this binary is when a Cluster of a test starts it: a process that
// tells who it is, or a NATS server that does nothing.
func standIn() bool {
	if os.Getenv("WH_DEV_TEST") == "" {
		return false
	}
	port := os.Getenv("WH_SERVER_PORT")
	if port == "" {
		time.Sleep(time.Hour) // not select{}: without cgo the runtime calls that a deadlock, and ends
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/die" {
			os.Exit(3)
		}
		_, _ = fmt.Fprint(w, os.Getenv("WH_INSTANCE_ID"), " ", os.Getenv("WH_ROLES"), " ", r.Host)
	})
	_ = (&http.Server{Addr: net.JoinHostPort("127.0.0.1", port), Handler: handler, ReadHeaderTimeout: time.Second}).ListenAndServe()
	return true
}

// running is a Cluster of stand-ins.
type running struct {
	t    *testing.T
	url  string
	stop context.CancelFunc
	done chan error
}

func runCluster(t *testing.T, apply func(context.Context, []string) error) *running {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("WH_DEV_TEST", "1")
	port := unused(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, url: "http://" + address(port), stop: cancel, done: make(chan error, 1)}
	c := &Cluster{Program: self, NATS: self, Processes: 3, Env: os.Environ(), Apply: apply, Say: t.Logf}
	ready := make(chan struct{})
	go func() {
		r.done <- c.Run(ctx, ServerOptions{
			DataDir: dir, SettingsDir: dir, LogFile: filepath.Join(dir, "log"), Host: loopback, Port: port,
			OperatorKey: "k", TokenSecret: strings.Repeat("s", 32),
		}, func() { close(ready) })
	}()
	t.Cleanup(cancel)
	select {
	case <-ready:
	case err := <-r.done:
		r.done <- err
	case <-time.After(time.Minute):
		require.FailNow(t, "the cluster does not start")
	}
	return r
}

func (r *running) get(path string) string {
	r.t.Helper()
	response, err := http.Get(r.url + path)
	require.NoError(r.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	return string(body)
}

func TestAClusterAnswersByOneProcessAfterTheOther(t *testing.T) {
	var mu sync.Mutex
	var urls []string
	failures := 2
	r := runCluster(t, func(_ context.Context, all []string) error {
		mu.Lock()
		defer mu.Unlock()
		urls = all
		if failures--; failures >= 0 {
			return errors.New("not ready yet")
		}
		return nil
	})
	mu.Lock()
	assert.Len(t, urls, natsNodes)
	mu.Unlock()
	seen := map[string]bool{}
	for range 6 {
		seen[r.get("/")] = true
	}
	host := strings.TrimPrefix(r.url, "http://")
	assert.Equal(t, map[string]bool{"dev-0 api,ingest,sweeper " + host: true, "dev-1 api,ingest " + host: true}, seen,
		"the one that writes alone is not asked, and the host is the caller's")
	r.stop()
	require.NoError(t, <-r.done)
	_, err := net.DialTimeout("tcp", strings.TrimPrefix(r.url, "http://"), time.Second)
	assert.Error(t, err)
}

func TestAClusterEndsWithTheFirstProcessThatDoes(t *testing.T) {
	r := runCluster(t, func(context.Context, []string) error { return nil })
	_, err := http.Get(r.url + "/die")
	_ = err // the proxy answers for the dead
	require.ErrorContains(t, <-r.done, "ended (see ")
}

func TestAClusterWithoutANATSServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := (&Cluster{Processes: 3}).Run(t.Context(), ServerOptions{}, nil)
	require.ErrorContains(t, err, "no nats-server found")
}

func TestRolesOfProcesses(t *testing.T) {
	for processes, want := range map[int][]string{
		2: {"api,ingest,sweeper", "ingest"}, 4: {"api,ingest,sweeper", "api,ingest", "api,ingest", "ingest"},
	} {
		for n, roles := range want {
			assert.Equal(t, roles, (&Cluster{Processes: processes}).roles(n), strconv.Itoa(processes))
		}
	}
}
