package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// parkRows runs a server on which n rows of a table are parked: they have a column
// that is dropped before they are written, and then added again.
func parkRows(t *testing.T, clickhouse *harness.ClickHouse, n int) *movingServer {
	t.Helper()
	config := map[string]string{"ingest": `{"flush":{"max_wait":"10m"}}`}
	server := startMoving(t, clickhouse, config)
	clickhouse.Must(t, "DROP TABLE IF EXISTS moving SYNC")
	clickhouse.Must(t, "CREATE TABLE moving (id String, ref String DEFAULT '') ENGINE = MergeTree ORDER BY id")
	server.AwaitReady(t)
	for from := 0; from < n; from += 1000 {
		var rows strings.Builder
		for i := from; i < min(n, from+1000); i++ {
			fmt.Fprintf(&rows, "{\"id\":\"m%d\",\"ref\":\"r%d\"}\n", i, i)
		}
		a := server.Do(t, http.MethodPost, "/v1/ingest?table=moving", rows.String(), "Content-Type", "application/x-ndjson")
		require.Equal(t, http.StatusOK, a.Status, a.Body)
	}
	clickhouse.Must(t, "ALTER TABLE moving DROP COLUMN ref")
	server.Kill()
	config["ingest"] = `{"flush":{"max_wait":"50ms"}}`
	server.WriteSettings(t)
	server.restart(t)
	server.AwaitReady(t)
	harness.Eventually(t, 60*time.Second, func() error {
		if got := parkedRows(t, server); got != n {
			return fmt.Errorf("%d rows are parked", got)
		}
		return nil
	})
	clickhouse.Must(t, "ALTER TABLE moving ADD COLUMN ref String DEFAULT ''")
	return server
}

func parkedRows(t *testing.T, server *movingServer) int {
	t.Helper()
	var stats struct{ Total int }
	server.Ops(t, http.MethodGet, "/v1/ops/dlq/stats", "").JSON(t, &stats)
	return stats.Total
}

// A replay that is killed in the middle, again and again: no row is lost.
func TestKilledInTheMiddleOfAReplay(t *testing.T) {
	t.Parallel()
	const rows = 8000
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	var server *movingServer
	left := 0
	for attempt := 0; left == 0; attempt++ {
		require.Less(t, attempt, 5, "each kill came too late to test anything")
		if server != nil {
			server.Kill()
		}
		server = parkRows(t, clickhouse, rows)
		left = killReplay(t, server, rows)
	}
	for range 2 {
		if left > 0 {
			left = killReplay(t, server, left)
		}
	}
	var answer struct{ Replayed, Failed, Remaining int }
	server.Ops(t, http.MethodPost, "/v1/ops/dlq/replay", `{"table":"moving","all":true}`).JSON(t, &answer)
	require.Equal(t, left, answer.Replayed)
	require.Zero(t, answer.Failed)
	require.Zero(t, answer.Remaining)
	harness.Eventually(t, 60*time.Second, func() error {
		got := clickhouse.Must(t, "SELECT uniqExact(id), countIf(ref != concat('r', substring(id, 2))) FROM moving")
		if got != fmt.Sprintf("%d\t0", rows) {
			return fmt.Errorf("ids, and rows that are not as they were sent: %s", got)
		}
		return nil
	})
	require.Zero(t, parkedRows(t, server))
	// The queue recognises what a killed replay had put back. Beside it an
	// INSERT that was in flight at a kill may be stored twice.
	t.Logf("%s rows for %d ids", clickhouse.Must(t, "SELECT count() FROM moving"), rows)
}

// killReplay kills the server while it replays all of its letters, starts it again
// and returns how many are left.
func killReplay(t *testing.T, server *movingServer, letters int) (left int) {
	t.Helper()
	replayed := make(chan struct{})
	go func() {
		defer close(replayed)
		// Its answer never comes, or says that all are replayed.
		_, _ = server.TryDo(http.MethodPost, "/v1/ops/dlq/replay", `{"table":"moving","all":true}`, "X-Operator-Key", harness.OperatorKey)
	}()
	harness.Eventually(t, time.Minute, func() error {
		if got := parkedRows(t, server); got == letters {
			return fmt.Errorf("%d letters, and none is replayed", got)
		}
		return nil
	})
	server.Kill()
	<-replayed
	server.restart(t)
	server.AwaitReady(t)
	left = parkedRows(t, server)
	t.Logf("%d letters are left", left)
	return left
}

func TestDeadLettersOnTheCommandLine(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	server := parkRows(t, clickhouse, 5)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(harness.OperatorKey+"\n"), 0o600))
	dlq := func(code int, args ...string) string {
		t.Helper()
		r := cli(t, []string{"WH_AUTH_OPERATOR_KEY_FILE=" + key}, append([]string{"dlq"}, append(args, "--server", server.URL)...)...)
		require.Equal(t, code, r.code, r.out+r.errOut)
		require.NotContains(t, r.out+r.errOut, harness.OperatorKey)
		return r.out + r.errOut
	}
	require.Regexp(t, `moving +5\n`, dlq(0, "list"))
	var page struct{ Rows []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(dlq(0, "list", "--table", "moving", "--format", "json")), &page))
	require.Len(t, page.Rows, 5)
	ids := page.Rows
	require.Contains(t, dlq(0, "list", "--table", "moving", "--limit", "2"), "there are more: --cursor "+ids[1].ID)
	shown := dlq(0, "show", ids[2].ID)
	require.Contains(t, shown, `{"id":"m2","ref":"r2"}`)
	require.Contains(t, shown, "ref")
	require.Contains(t, dlq(1, "show", "0-1"), "dlq.unknown_id")

	require.Contains(t, dlq(0, "replay", "--table", "moving", "--all", "--dry-run"), "would replay 5, failed 0, remaining 5")
	require.Contains(t, dlq(0, "discard", "--table", "moving", ids[0].ID), "discarded 1, remaining 4")
	require.Contains(t, dlq(0, "replay", "--table", "moving", ids[1].ID), "replayed 1, failed 0, remaining 3")
	require.Contains(t, dlq(1, "replay", "--table", "moving", ids[1].ID), "dlq.unknown_id")
	require.Contains(t, dlq(0, "replay", "--table", "moving", "--all"), "replayed 3, failed 0, remaining 0")
	harness.Eventually(t, time.Minute, func() error {
		if got := clickhouse.Must(t, "SELECT count() FROM moving"); got != "4" {
			return fmt.Errorf("%s rows", got)
		}
		return nil
	})
	require.Contains(t, dlq(0, "discard", "--table", "moving", "--all", "--yes"), "discarded 0, remaining 0")

	for _, args := range [][]string{
		{"replay", "--all"}, {"replay", "--table", "moving"}, {"replay", "--table", "moving", "--all", "x"},
		{"discard", "--table", "moving", "--all"}, {"show"}, {"list", "x"}, {"list", "--tenant", "a b"}, {"list", "--format", "xml"},
	} {
		dlq(2, args...)
	}
	require.Equal(t, 2, cli(t, nil, "dlq", "list", "--server", server.URL).code, "without a key")
	require.Equal(t, 2, cli(t, []string{"WH_AUTH_OPERATOR_KEY=x"}, "dlq", "list", "--server", "localhost:8080").code)
	require.Equal(t, 1, cli(t, []string{"WH_AUTH_OPERATOR_KEY=wrong"}, "dlq", "list", "--server", server.URL).code)
	require.Equal(t, 1, cli(t, []string{"WH_AUTH_OPERATOR_KEY=x"}, "dlq", "list", "--server", "http://127.0.0.1:1").code)
	require.Contains(t, dlq(1, "replay", "--table", "nowhere", "--all"), "table.unknown")
}

// A tenant that never parked a row has no dead letters, which is no failure.
func TestDLQListOfAHealthyTenant(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	server := startMoving(t, clickhouse, nil)
	clickhouse.Must(t, "CREATE TABLE moving (id String) ENGINE = MergeTree ORDER BY id")
	server.AwaitReady(t)
	env := []string{"WH_AUTH_OPERATOR_KEY=" + harness.OperatorKey}
	for _, args := range [][]string{{"list"}, {"list", "--table", "moving"}, {"list", "--table", "nosuch"}, {"list", "--format", "json"}} {
		r := cli(t, env, append([]string{"dlq", "--server", server.URL}, args...)...)
		require.Zero(t, r.code, "%v: %s", args, r.errOut)
	}
	r := cli(t, env, "dlq", "--server", server.URL, "show", "nosuch")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "no dead letter")
}
