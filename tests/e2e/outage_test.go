package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// holdRequest opens an ingest request whose body never ends, and returns how
// to close it.
func holdRequest(t *testing.T, base string) (release func()) {
	t.Helper()
	u, err := url.Parse(base)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST /v1/ingest?table=load HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n", u.Host)
	require.NoError(t, err)
	// The server asks for the body once the request is being served.
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue")
	return func() { _ = conn.Close() }
}

// ClickHouse goes away under load: the process stays alive, readiness names
// the pool, events are taken until the queue's budget is used up, then refused
// with Retry-After; when ClickHouse is back everything is there, once.
func TestClickHouseAwayUnderLoad(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	server := startMoving(t, clickhouse, map[string]string{
		"mq":     `{"max_bytes_gb":"6MB"}`,
		"ingest": `{"flush":{"max_wait":"200ms"}}`,
	})
	server.AwaitReady(t)
	load := harness.StartLoad(server.current, "load", 4)
	harness.Eventually(t, time.Minute, func() error {
		if load.Answered() < 200 {
			return fmt.Errorf("%d rows answered", load.Answered())
		}
		return nil
	})
	clickhouse.Kill()
	// Counted from here: the queue may be full before readiness says why.
	before := load.Answered()
	harness.Eventually(t, time.Minute, func() error {
		a := server.Do(t, http.MethodGet, "/readyz", "")
		if a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, fmt.Sprintf("127.0.0.1:%d/default", clickhouse.HTTPPort)) {
			return fmt.Errorf("readyz: %d %s", a.Status, a.Body)
		}
		return nil
	})
	require.Equal(t, http.StatusOK, server.Do(t, http.MethodGet, "/livez", "").Status)
	harness.Eventually(t, time.Minute, func() error {
		if load.Answered() < before+200 {
			return fmt.Errorf("%d rows answered while ClickHouse is away", load.Answered()-before)
		}
		return nil
	})
	harness.Eventually(t, 60*time.Second, func() error {
		if load.Statuses()[http.StatusServiceUnavailable] == 0 {
			return fmt.Errorf("the queue is not full yet: %v", load.Statuses())
		}
		return nil
	})
	load.Stop()
	var refused harness.Answer
	harness.Eventually(t, time.Minute, func() error {
		// What was refused may have been larger, as it is stored.
		refused = server.Ingest(t, "load", `[`+strings.Repeat(`{"id":"x","note":"`+strings.Repeat("n", 1000)+`"},`, 500)+`{"id":"x"}]`)
		if refused.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", refused.Status, refused.Body)
		}
		return nil
	})
	require.Contains(t, refused.Body, `"queue.full"`)
	require.Equal(t, "30", refused.Header.Get("Retry-After"))

	clickhouse.Start(t)
	repeated := load.Account(t, clickhouse, 60*time.Second)
	t.Logf("%d rows answered, %d stored more than once, answers %v", load.Answered(), repeated, load.Statuses())
	harness.Eventually(t, time.Minute, func() error {
		if a := server.Ingest(t, "load", `{"id":"after"}`); a.Status != http.StatusOK {
			return fmt.Errorf("ingest: %d %s", a.Status, a.Body)
		}
		return nil
	})
	harness.Eventually(t, time.Minute, func() error {
		if a := server.Do(t, http.MethodGet, "/readyz", ""); a.Status != http.StatusOK {
			return fmt.Errorf("readyz: %d %s", a.Status, a.Body)
		}
		return nil
	})
}

func TestLivenessReadinessAndALateClickHouse(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	clickhouse.Stop(t)
	server := startMoving(t, clickhouse, nil)
	for _, path := range []string{"/livez", "/readyz"} {
		a := server.Do(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusServiceUnavailable, a.Status)
		require.Contains(t, a.Body, "tenant 0")
	}
	a := server.Ingest(t, "load", `{"id":"early"}`)
	require.Equal(t, http.StatusServiceUnavailable, a.Status)
	require.Contains(t, a.Body, `"schema.not_loaded"`)
	require.Equal(t, "5", a.Header.Get("Retry-After"))

	clickhouse.Start(t)
	server.AwaitReady(t)
	require.Equal(t, http.StatusOK, server.Ingest(t, "load", `{"id":"now"}`).Status)
	clickhouse.Stop(t)
	harness.Eventually(t, time.Minute, func() error {
		if a := server.Do(t, http.MethodGet, "/readyz", ""); a.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("readyz: %d", a.Status)
		}
		return nil
	})
	require.Equal(t, http.StatusOK, server.Do(t, http.MethodGet, "/livez", "").Status)
	clickhouse.Start(t)
	harness.Eventually(t, time.Minute, func() error {
		if a := server.Do(t, http.MethodGet, "/readyz", ""); a.Status != http.StatusOK {
			return fmt.Errorf("readyz: %d %s", a.Status, a.Body)
		}
		return nil
	})
}

// The first run of a deploy may not share its data directory with the last.
func TestADataDirectoryHasOneProcess(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	server := startMoving(t, clickhouse, nil)
	r := cli(t, []string{"WH_SETTINGS_DIR=" + server.SettingsDir, "WH_DATA_DIR=" + server.DataDir, "WH_SERVER_PORT=0"}, "serve")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "in use by another process")
}
