package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

const (
	// readPolicies let a viewer read what is not of its own page, so that each
	// caller's rows are filtered by its claims.
	readPolicies = `{"tables":{"events":{"viewer":{"select":{"deny_columns":["user_id"],"filter":{"page":{"_neq":"{{ jwt.sub }}"}}}}}}}`
	// dashboard is the cached question: the most visited pages.
	dashboard = `{"columns":["page"],"aggregations":[{"fn":"count","column":"*","alias":"views"}],"group_by":["page"],` +
		`"filters":[{"column":"score","op":"gt","value":10}],"order_by":[{"column":"views","dir":"desc"},{"column":"page"}],"limit":20}`
	// mark stands for what makes a question one of its own.
	mark = "9424242"
	// small is the uncached question: a few rows, by a value that differs.
	small = `{"columns":["page","duration_ms","score"],"filters":[{"column":"event","op":"eq","value":"buy"},` +
		`{"column":"duration_ms","op":"neq","value":` + mark + `}],"limit":10}`
	// cold is a question that takes a while.
	cold = `{"aggregations":[{"fn":"count_distinct","column":"session_id","alias":"n"}],"filters":[{"column":"duration_ms","op":"neq","value":` + mark + `}]}`

	// pace is how often a reader asks when it does not ask as often as it can.
	pace = 16 * time.Millisecond

	readers = 32
	askers  = 64
	events  = 20_000
)

// desk is what reads are measured on.
type desk struct {
	clickhouse *harness.ClickHouse
	server     *harness.Server
	// seen is a second server, whose requests to ClickHouse can be seen.
	seen  *harness.Server
	proxy *clickhousetest.FaultProxy
	bare  *harness.Process
	floor string
	// asked counts the questions, so that each is a new one.
	asked atomic.Int64
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	return newDeskOn(t, harness.StartClickHouse(t, binaries.Dir(t)))
}

func newDeskOn(t testing.TB, clickhouse *harness.ClickHouse) *desk {
	t.Helper()
	d := &desk{clickhouse: clickhouse}
	d.clickhouse.Must(t, "CREATE TABLE events "+eventTable)
	d.clickhouse.Must(t, fmt.Sprintf(`INSERT INTO events SELECT generateUUIDv4(), concat('s-', hex(sipHash64(number))), number %% 1000,
		['view','click','cart','buy'][number %% 4 + 1], concat('/products/', toString(number %% 300), '/reviews'), NULL, 'DE', number %% 60000,
		number %% 100, 1, toDateTime64('2026-03-04 05:00:00', 3, 'UTC') + number %% 3600 FROM numbers(%d)`, events))
	d.clickhouse.Must(t, "OPTIMIZE TABLE events FINAL")
	options := harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: d.clickhouse, Policies: readPolicies, Env: []string{"WH_AUTH_JWT_SECRET=" + benchSecret},
	}
	d.server = harness.StartServer(t, options)
	d.proxy = clickhousetest.NewFaultProxy(t, "127.0.0.1:"+strconv.Itoa(d.clickhouse.HTTPPort))
	options.Config = map[string]string{"clickhouse": fmt.Sprintf(`{"addr":"127.0.0.1","http_port":%d}`, d.proxy.Port())}
	d.seen = harness.StartServer(t, options)
	d.server.AwaitReady(t)
	d.seen.AwaitReady(t)
	return d
}

// reader is the credential of caller i: each has a token of its own.
func reader(t testing.TB, i int) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"role": "viewer", "sub": fmt.Sprintf("reader-%d", i), "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(benchSecret))
	require.NoError(t, err)
	return "Bearer " + text
}

func (d *desk) ask(t testing.TB, document string, i int) []byte {
	t.Helper()
	return rawRequest("/v1/query?table=events", document, "Authorization", reader(t, i), "X-Tenant-ID", "0", "Content-Type", "application/json")
}

func hostOf(t testing.TB, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	require.NoError(t, err)
	return parsed.Host
}

// startBare answers what the server answers, in a process of its own.
func (d *desk) startBare(t *testing.T, answer string) { d.bare, d.floor = startBare(t, answer) }

// TestQueryBenchmarks is run by make bench; it fails only when something does
// not work, never for a time.
func TestQueryBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	d := newDesk(t)
	lines := d.hits(t)
	lines = append(lines, d.misses(t, 1)...)
	lines = append(lines, d.misses(t, 8)...)
	lines = append(lines, d.stampede(t)...)
	report(t, "queries", lines)
}

// measured is one round with the CPU that a process spent on a request.
type measured struct {
	burst
	cpu float64 // microseconds a request
}

func measure(t *testing.T, pid int, addr string, clients int, next func(c, i int) []byte) measured {
	t.Helper()
	before := cpuOf(t, pid)
	b := hammer(t, addr, clients, *duration, 0, next)
	require.NotZero(t, b.requests)
	return measured{b, float64((cpuOf(t, pid) - before).Microseconds()) / float64(b.requests)}
}

var missedReads = regexp.MustCompile(`(?m)^wavehouse_cache_reads_total\{outcome="miss"\} (\S+)$`)

// missed counts the reads that asked ClickHouse. Callers whose rows are filtered are
// not told whether an answer is of the cache.
func (d *desk) missed(t *testing.T) float64 {
	t.Helper()
	found := missedReads.FindStringSubmatch(d.server.Do(t, http.MethodGet, "/metrics", "").Body)
	require.NotNil(t, found)
	n, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return n
}

// hits asks what is in the cache, beside a bare handler that answers as much.
func (d *desk) hits(t *testing.T) []line {
	t.Helper()
	requests := make([][]byte, readers)
	for i := range requests {
		requests[i] = d.ask(t, dashboard, i)
	}
	first := d.server.Do(t, http.MethodPost, "/v1/query?table=events", dashboard, "Authorization", reader(t, 0))
	require.Equal(t, http.StatusOK, first.Status, first.Body)
	d.startBare(t, first.Body)
	next := func(c, _ int) []byte { return requests[c] }
	host := hostOf(t, d.server.URL)
	hammer(t, host, readers, *duration/4, 0, next)
	var rate, bareRate, rates, cpu, bareCPU, cpus, p99, bareP99, misses, calm, bareCalm []float64
	for range *rounds {
		asked := d.missed(t)
		us := measure(t, d.server.PID(), host, readers, next)
		missed := d.missed(t) - asked
		bare := measure(t, d.bare.PID(), d.floor, readers, next)
		rate, bareRate = append(rate, us.perSecond()), append(bareRate, bare.perSecond())
		cpu, bareCPU = append(cpu, us.cpu), append(bareCPU, bare.cpu)
		rates, cpus = append(rates, us.perSecond()/bare.perSecond()), append(cpus, us.cpu/bare.cpu)
		p99, bareP99 = append(p99, percentile(us.took, .99).Seconds()*1e3), append(bareP99, percentile(bare.took, .99).Seconds()*1e3)
		misses = append(misses, missed/float64(us.requests)*1e6)
		paced, barePaced := hammer(t, host, readers, *duration, pace, next), hammer(t, d.floor, readers, *duration, pace, next)
		calm, bareCalm = append(calm, percentile(paced.took, .99).Seconds()*1e3), append(bareCalm, percentile(barePaced.took, .99).Seconds()*1e3)
	}
	return []line{
		{fmt.Sprintf("cache hits/s, %d clients, each with its tenant, token and row filter", readers), fmt.Sprintf("%.0f", median(rate)),
			fmt.Sprintf("%.0f a bare handler with the same %d bytes", median(bareRate), len(first.Body)), spread(rates)},
		{"— CPU, µs a request", fmt.Sprintf("%.1f", median(cpu)), fmt.Sprintf("%.1f", median(bareCPU)), spread(cpus)},
		{"— p99, ms, as fast as it goes", fmt.Sprintf("%.2f", median(p99)), fmt.Sprintf("%.2f", median(bareP99)), fmt.Sprintf("%.2f", median(p99)/median(bareP99))},
		{fmt.Sprintf("— p99, ms, at %.0f/s", readers/pace.Seconds()), fmt.Sprintf("%.2f", median(calm)), fmt.Sprintf("%.2f", median(bareCalm)),
			fmt.Sprintf("%.2f", median(calm)/median(bareCalm))},
		{"— misses among them, per million", fmt.Sprintf("%.0f", median(misses)), "", ""},
	}
}

// unique gives each request a value that no other had. The requests hold the
// mark, whose place is written over.
func (d *desk) unique(requests [][]byte) func(c, i int) []byte {
	places := make([]int, len(requests))
	for c := range places {
		places[c] = bytes.Index(requests[c], []byte(mark))
	}
	return func(c, _ int) []byte {
		value := 1_000_000 + d.asked.Add(1)
		copy(requests[c][places[c]:], strconv.FormatInt(value, 10))
		return requests[c]
	}
}

// statementOf is the request that a question becomes on its way to ClickHouse.
func (d *desk) statementOf(t testing.TB, document string) []byte {
	t.Helper()
	answer := d.seen.Do(t, http.MethodPost, "/v1/query?table=events", document, "Authorization", reader(t, 0))
	require.Equal(t, http.StatusOK, answer.Status, answer.Body)
	for _, request := range slices.Backward(d.proxy.Requests()) {
		target := "/?" + request.Query.Encode()
		if !strings.Contains(target+string(request.Body), mark) {
			continue
		}
		var headers []string
		for _, name := range []string{"Authorization", "X-Clickhouse-User", "X-Clickhouse-Key", "Accept-Encoding"} {
			if value := request.Header.Get(name); value != "" {
				headers = append(headers, name, value)
			}
		}
		raw := rawRequest(target, string(request.Body), headers...)
		require.Equal(t, 1, bytes.Count(raw, []byte(mark)), string(raw))
		return raw
	}
	require.FailNow(t, "the statement was not seen")
	return nil
}

// stampede has many clients ask one question that nobody asked before.
func (d *desk) stampede(t *testing.T) []line {
	t.Helper()
	const questions = 5
	sent := d.statementOf(t, cold)
	engine := hostOf(t, d.clickhouse.URL())
	var reached, ours, theirs, ratios []float64
	for range questions {
		value := strconv.FormatInt(1_000_000+d.asked.Add(1), 10)
		requests := make([][]byte, askers)
		for c := range requests {
			requests[c] = d.ask(t, strings.ReplaceAll(cold, mark, value), 0)
		}
		before := d.proxy.Count()
		took := together(t, hostOf(t, d.seen.URL), requests)
		n := 0
		for _, request := range d.proxy.Requests()[before:] {
			if strings.Contains(request.Query.Encode()+string(request.Body), value) {
				n++
			}
		}
		reached, ours = append(reached, float64(n)), append(ours, took.Seconds()*1e3)
		for c := range requests {
			requests[c] = bytes.ReplaceAll(sent, []byte(mark), []byte(value))
		}
		direct := together(t, engine, requests)
		theirs, ratios = append(theirs, direct.Seconds()*1e3), append(ratios, took.Seconds()/direct.Seconds())
	}
	return []line{
		{fmt.Sprintf("%d clients ask one cold question: queries that reach ClickHouse", askers),
			fmt.Sprintf("%.0f (at most %.0f)", median(reached), slices.Max(reached)), fmt.Sprintf("%d asked directly", askers), ""},
		{"— until the last has its answer, ms", fmt.Sprintf("%.1f", median(ours)), fmt.Sprintf("%.1f", median(theirs)), spread(ratios)},
	}
}

// together sends one request from each client at once, and returns when all
// have their answers.
func together(t *testing.T, addr string, requests [][]byte) time.Duration {
	t.Helper()
	conns := make([]*rawConn, len(requests))
	for c := range conns {
		conn, err := dialRaw(addr)
		require.NoError(t, err)
		defer conn.conn.Close()
		conns[c] = conn
	}
	var wait sync.WaitGroup
	begin := make(chan struct{})
	for c, conn := range conns {
		wait.Go(func() {
			<-begin
			answer, err := conn.do(requests[c])
			if err != nil || answer.status != http.StatusOK {
				t.Errorf("client %d: %d %v", c, answer.status, err)
			}
		})
	}
	start := time.Now()
	close(begin)
	wait.Wait()
	return time.Since(start)
}
