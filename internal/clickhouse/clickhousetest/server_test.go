package clickhousetest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	a, b := clickhousetest.Start(t), clickhousetest.Start(t)
	require.NotEqual(t, a.Database, b.Database)
	require.Equal(t, a.HTTPPort, b.HTTPPort, "the server is shared")
	a.Exec(t, "CREATE TABLE t (n UInt8, s Nullable(String)) ENGINE = MergeTree ORDER BY n", "INSERT INTO t VALUES (1, 'x'), (2, NULL)")
	require.Equal(t, 2, a.Count(t, "t"))
	require.Equal(t, [][]string{{"1", "x"}, {"2", "ᴺᵁᴸᴸ"}}, a.Rows(t, "SELECT * FROM t ORDER BY n"))
	_, err := b.Try("SELECT * FROM t")
	require.ErrorContains(t, err, "UNKNOWN_TABLE")
}

func TestAPrivateServerKeepsItsDataOverStopsAndCrashes(t *testing.T) {
	s := clickhousetest.StartPrivate(t)
	s.Exec(t, "CREATE TABLE t (n UInt8) ENGINE = MergeTree ORDER BY n", "CREATE TABLE default.d (n UInt8) ENGINE = MergeTree ORDER BY n",
		"INSERT INTO t VALUES (1)", "INSERT INTO default.d VALUES (1)")
	port := s.HTTPPort
	s.Stop(t)
	_, err := net.DialTimeout("tcp", s.HTTPAddr(), time.Second)
	require.Error(t, err)
	s.Restart(t)
	require.Equal(t, port, s.HTTPPort)
	s.Exec(t, "INSERT INTO t VALUES (2)", "ALTER TABLE default.d ADD COLUMN more String DEFAULT 'x'", "INSERT INTO default.d (n) VALUES (2)")
	s.Kill(t)
	s.Restart(t)
	require.Equal(t, 2, s.Count(t, "t"))
	require.Equal(t, [][]string{{"1", "x"}, {"2", "x"}}, s.Rows(t, "SELECT * FROM default.d ORDER BY n"))
}

// TestTheServerEndsWithAProcessThatPanics runs this test binary again as one
// that panics, and watches the port of its server close.
func TestTheServerEndsWithAProcessThatPanics(t *testing.T) {
	if os.Getenv("CLICKHOUSETEST_PANIC") != "" {
		s := clickhousetest.Start(t)
		fmt.Println("address", s.HTTPAddr())
		panic("as asked")
	}
	clickhousetest.Start(t) // skips where there is no server
	if os.Getenv("WH_TEST_CLICKHOUSE") != "" {
		t.Skip("the server is somebody else's")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "CLICKHOUSETEST_PANIC=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	_, rest, found := strings.Cut(string(out), "address ")
	require.True(t, found, "%s", out)
	address, _, _ := strings.Cut(rest, "\n")
	require.Eventually(t, func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, time.Minute, 20*time.Millisecond)
}

func get(t *testing.T, port int, body string, within time.Duration) (int, string, error) {
	t.Helper()
	client := &http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(fmt.Sprintf("http://127.0.0.1:%d/", port), "text/plain", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func TestTheProxyDoesAsItIsTold(t *testing.T) {
	var seen atomic.Int64
	target := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen.Add(1)
		_, _ = w.Write([]byte(strings.Repeat("y", 1000)))
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- target.Serve(l) }()
	t.Cleanup(func() { target.Close(); <-served })
	p := clickhousetest.NewFaultProxy(t, l.Addr().String())

	for _, c := range []struct {
		name    string
		fault   clickhousetest.Fault
		status  int
		length  int
		fails   bool
		reached bool
	}{
		{"pass", clickhousetest.Pass(), 200, 1000, false, true},
		{"delay", clickhousetest.Delay(time.Millisecond), 200, 1000, false, true},
		{"hang", clickhousetest.Hang(), 0, 0, true, false},
		{"before", clickhousetest.ResetBeforeBody(), 0, 0, true, false},
		{"after", clickhousetest.ResetAfterBody(), 0, 0, true, false},
		{"lost", clickhousetest.LoseResponse(), 0, 0, true, true},
		{"cut", clickhousetest.CutResponse(10), 200, 10, true, true},
		{"answer", clickhousetest.Answer(503, http.Header{"X-A": {"b"}}, "busy"), 503, 4, false, false},
	} {
		within := time.Minute
		if c.name == "hang" {
			within = 300 * time.Millisecond
		}
		seen.Store(0)
		before := p.Count()
		p.Next(c.fault)
		status, text, err := get(t, p.Port(), c.name, within)
		require.Equal(t, c.fails, err != nil, "%s: %v", c.name, err)
		require.Equal(t, c.status, status, c.name)
		require.Len(t, text, c.length, c.name)
		// Who has left may have done so before the request was read.
		require.Eventually(t, func() bool { return p.Count() == before+1 }, time.Minute, time.Millisecond, c.name)
		require.Equal(t, c.reached, seen.Load() == 1, c.name)
	}
	p.Refuse()
	_, _, err = get(t, p.Port(), "x", time.Minute)
	require.ErrorContains(t, err, "refused")
	p.Pass(t)
	status, _, err := get(t, p.Port(), "x", time.Minute)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	p.Hang()
	_, _, err = get(t, p.Port(), "x", 300*time.Millisecond)
	require.Error(t, err)
	require.Positive(t, p.Accepted())
}
