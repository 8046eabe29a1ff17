package bench

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// tenantRow is what one number of tenants cost.
type tenantRow struct {
	tenants               int
	boot, known, warm     time.Duration
	idle, written, queued footprint
	whole, one            time.Duration
	firstWrites           float64 // tenants a second
	single, bodies        float64 // rows a second
}

// footprint is what a process holds.
type footprint struct {
	live, resident        int64 // bytes
	goroutines, openFiles int64
}

// TestTenantBenchmarks measures what tenants cost that do nothing, that have a
// queue, and that all write. It is run by make bench and fails only when
// something does not work.
func TestTenantBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	var rows []tenantRow
	for _, n := range []int{1, 100, 1000} {
		row := tenantRow{tenants: n}
		require.True(t, t.Run(fmt.Sprintf("memory of %d", n), func(t *testing.T) { tenantFootprints(t, &row) }))
		require.True(t, t.Run(fmt.Sprintf("speed of %d", n), func(t *testing.T) { tenantSpeed(t, &row) }))
		rows = append(rows, row)
	}
	publish(t, "tenants", tenantsTable(rows))
}

func tenantNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%04d", i)
	}
	return names
}

// startTenants starts a server with n tenants on a ClickHouse of its own.
func startTenants(t *testing.T, n int, env ...string) (s *harness.Server, boot, known time.Duration) {
	t.Helper()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE events "+eventTable)
	s = harness.NewNested(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse, Env: env}, tenantNames(n)...)
	begun := time.Now()
	s.Start(t)
	boot = s.ServingSince(t).Sub(begun)
	awaitTenants(t, s, n)
	return s, boot, time.Since(begun)
}

// awaitTenants waits until the tables of all are known.
func awaitTenants(t *testing.T, s *harness.Server, n int) {
	t.Helper()
	harness.Eventually(t, 2*time.Minute, func() error {
		answer, err := s.TryDo(http.MethodGet, "/v1/ops/tenants", "", "X-Operator-Key", harness.OperatorKey)
		if err != nil {
			return err
		}
		if known := strings.Count(answer.Body, `"schema_age_seconds"`); known < n {
			return fmt.Errorf("the tables of %d of %d are known", known, n)
		}
		return nil
	})
}

// tenantFootprints looks at tenants that do nothing as an operator sees them, once
// the garbage of the start is collected. What writes runs with a collector that
// leaves little garbage, so that the heap is what is held.
func tenantFootprints(t *testing.T, row *tenantRow) {
	shipped, _, _ := startTenants(t, row.tenants)
	row.idle = footprintOf(t, shipped, 10)
	shipped.Kill()
	s, _, _ := startTenants(t, row.tenants, "GOGC=5")
	writeOnce(t, s, row.tenants)
	row.written = footprintOf(t, s, 1)
	awaitWritten(t, s)
	// The store keeps what was written last for some ten seconds.
	row.queued = footprintOf(t, s, 20)
}

func tenantSpeed(t *testing.T, row *tenantRow) {
	s, boot, known := startTenants(t, row.tenants)
	row.boot, row.known = boot, known
	row.firstWrites = float64(row.tenants) / writeOnce(t, s, row.tenants).Seconds()
	row.single = allWrite(t, s, row.tenants, 1)
	row.bodies = allWrite(t, s, row.tenants, 100)
	awaitWritten(t, s)
	row.whole = reloads(t, s, "/v1/ops/settings/reload", 3)
	row.one = reloads(t, s, "/v1/ops/settings/reload?tenant=tenant-0000", 9)
	s.Signal(syscall.SIGTERM)
	s.Wait(t, time.Minute)
	begun := time.Now()
	s.Start(t)
	row.warm = s.ServingSince(t).Sub(begun)
}

// writeOnce sends a row to every tenant, which opens its queue.
func writeOnce(t *testing.T, s *harness.Server, n int) time.Duration {
	t.Helper()
	start := time.Now()
	var next atomic.Int64
	var wait sync.WaitGroup
	body := newRowSource(1).body(1)
	for range 16 {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				answer, err := s.TryDo(http.MethodPost, "/v1/ingest?table=events", body,
					"Content-Type", "application/x-ndjson", "X-Tenant-ID", fmt.Sprintf("tenant-%04d", i))
				if err != nil || answer.Status != http.StatusOK {
					t.Errorf("tenant %d: %v %s", i, err, answer.Body)
				}
			}
		})
	}
	wait.Wait()
	return time.Since(start)
}

// allWrite sends bodies of as many rows from 64 clients, each to the next
// tenant, and returns accepted rows a second.
func allWrite(t *testing.T, s *harness.Server, n, rows int) float64 {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	body := newRowSource(2).body(rows)
	var turn, accepted atomic.Int64
	var wait sync.WaitGroup
	deadline := time.Now().Add(*duration)
	for range 64 {
		wait.Go(func() {
			for time.Now().Before(deadline) {
				request, err := http.NewRequest(http.MethodPost, s.URL+"/v1/ingest?table=events", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("Content-Type", "application/x-ndjson")
				request.Header.Set("X-Tenant-Id", fmt.Sprintf("tenant-%04d", turn.Add(1)%int64(n)))
				response, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("answered %s", response.Status)
					return
				}
				accepted.Add(int64(rows))
			}
		})
	}
	wait.Wait()
	return float64(accepted.Load()) / duration.Seconds()
}

// awaitWritten waits until every queue is empty.
func awaitWritten(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, 2*time.Minute, func() error {
		answer, err := s.TryDo(http.MethodGet, "/v1/ops/tenants", "", "X-Operator-Key", harness.OperatorKey)
		if err == nil && strings.Contains(answer.Body, `"oldest_unwritten_age_seconds"`) {
			return fmt.Errorf("queues are not empty yet")
		}
		return err
	})
}

// reloads is the median time of a reload.
func reloads(t *testing.T, s *harness.Server, path string, times int) time.Duration {
	t.Helper()
	var took []time.Duration
	for range times {
		start := time.Now()
		answer := s.Ops(t, http.MethodPost, path, "")
		took = append(took, time.Since(start))
		require.Equal(t, http.StatusOK, answer.Status, answer.Body)
	}
	return percentile(took, .5)
}

// footprintOf looks for as many seconds: the least memory seen is that after a
// collection.
func footprintOf(t *testing.T, s *harness.Server, seconds int) footprint {
	t.Helper()
	f := footprint{live: 1 << 62}
	for range seconds {
		metrics := scrape(t, s)
		f.live = min(f.live, int64(metrics["go_memstats_heap_alloc_bytes"]+metrics["go_memstats_stack_inuse_bytes"]))
		f.goroutines, f.openFiles = int64(metrics["go_goroutines"]), int64(metrics["process_open_fds"])
		time.Sleep(time.Second)
	}
	f.resident = residentOf(t, s.PID())
	return f
}

var sample = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{\})? ([0-9.e+-]+)$`)

// scrape returns the metrics without labels.
func scrape(t *testing.T, s *harness.Server) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, m := range sample.FindAllStringSubmatch(s.Do(t, http.MethodGet, "/metrics", "").Body, -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		values[m[1]] = value
	}
	return values
}

// tenantsTable has a column for each number of tenants.
func tenantsTable(rows []tenantRow) string {
	first := rows[0]
	var out strings.Builder
	out.WriteString("| what |")
	for _, r := range rows {
		fmt.Fprintf(&out, " %d |", r.tenants)
	}
	out.WriteString("\n| --- |" + strings.Repeat(" --- |", len(rows)) + "\n")
	line := func(what string, value func(tenantRow) string) {
		fmt.Fprintf(&out, "| %s |", what)
		for _, r := range rows {
			fmt.Fprintf(&out, " %s |", value(r))
		}
		out.WriteString("\n")
	}
	each := func(f func(tenantRow) int64, unit float64) func(tenantRow) string {
		return func(r tenantRow) string {
			if r.tenants == first.tenants {
				return ""
			}
			return fmt.Sprintf("%.1f", float64(f(r)-f(first))/float64(r.tenants-first.tenants)/unit)
		}
	}
	ms := func(f func(tenantRow) time.Duration) func(tenantRow) string {
		return func(r tenantRow) string { return fmt.Sprintf("%.0f", f(r).Seconds()*1e3) }
	}
	whole := func(f func(tenantRow) int64, unit int64) func(tenantRow) string {
		return func(r tenantRow) string { return fmt.Sprint(f(r) / unit) }
	}
	line("start until it listens, cold, ms", ms(func(r tenantRow) time.Duration { return r.boot }))
	line("start until it listens, with data, ms", ms(func(r tenantRow) time.Duration { return r.warm }))
	line("start until the tables of all are known, ms", ms(func(r tenantRow) time.Duration { return r.known }))
	line("reload of the whole directory, ms", ms(func(r tenantRow) time.Duration { return r.whole }))
	line("reload of one folder, ms", ms(func(r tenantRow) time.Duration { return r.one }))
	line("never wrote: heap and stacks, MiB", whole(func(r tenantRow) int64 { return r.idle.live }, 1<<20))
	line("— resident, MiB", whole(func(r tenantRow) int64 { return r.idle.resident }, 1<<20))
	line("— goroutines", whole(func(r tenantRow) int64 { return r.idle.goroutines }, 1))
	line("— open files", whole(func(r tenantRow) int64 { return r.idle.openFiles }, 1))
	line("— KB of heap and stacks a further tenant", each(func(r tenantRow) int64 { return r.idle.live }, 1000))
	line("— KB resident a further tenant", each(func(r tenantRow) int64 { return r.idle.resident }, 1000))
	line("— goroutines a further tenant", each(func(r tenantRow) int64 { return r.idle.goroutines }, 1))
	line("just written: KB a further tenant", each(func(r tenantRow) int64 { return r.written.live }, 1000))
	line("with a queue: heap and stacks, MiB", whole(func(r tenantRow) int64 { return r.queued.live }, 1<<20))
	line("— resident, MiB", whole(func(r tenantRow) int64 { return r.queued.resident }, 1<<20))
	line("— goroutines", whole(func(r tenantRow) int64 { return r.queued.goroutines }, 1))
	line("— open files", whole(func(r tenantRow) int64 { return r.queued.openFiles }, 1))
	line("— KB a further tenant", each(func(r tenantRow) int64 { return r.queued.live }, 1000))
	line("— goroutines a further tenant", each(func(r tenantRow) int64 { return r.queued.goroutines }, 1))
	line("first writes, tenants/s", func(r tenantRow) string { return fmt.Sprintf("%.0f", r.firstWrites) })
	line("single rows, 64 clients over all tenants, rows/s", func(r tenantRow) string { return fmt.Sprintf("%.0f", r.single) })
	line("100-row bodies, 64 clients over all tenants, rows/s", func(r tenantRow) string { return fmt.Sprintf("%.0f", r.bodies) })
	return out.String()
}
