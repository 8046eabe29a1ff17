package bench

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

var (
	write    = flag.Bool("write", false, "write the tables of docs/benchmarks.md")
	rounds   = flag.Int("rounds", 3, "rounds of each contender")
	duration = flag.Duration("round", 4*time.Second, "how long a round sends")
)

var binaries harness.Binaries

func TestMain(m *testing.M) {
	code := m.Run()
	binaries.Remove()
	os.Exit(code)
}

// bed is what the contenders run on.
type bed struct {
	clickhouse *harness.ClickHouse
	server     *harness.Server
	floor      string
	tables     int
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{clickhouse: harness.StartClickHouse(t, binaries.Dir(t))}
	b.server = harness.StartServer(t, harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: b.clickhouse, Config: map[string]string{"stream": `{"gap_window_minutes":0}`},
	})
	b.server.AwaitReady(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	floor := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte("{\"ok\":true}\n"))
	}), ReadHeaderTimeout: time.Minute}
	go func() { _ = floor.Serve(listener) }()
	t.Cleanup(func() { _ = floor.Close() })
	b.floor = "http://" + listener.Addr().String() + "/"
	return b
}

// table makes a table of its own for a round.
func (b *bed) table(t *testing.T) string {
	t.Helper()
	b.tables++
	name := fmt.Sprintf("events_%d", b.tables)
	b.clickhouse.Must(t, "CREATE TABLE "+name+" "+eventTable)
	// Tables come faster here than the server looks for new ones by itself.
	require.Equal(t, http.StatusOK, b.server.Ops(t, http.MethodPost, "/v1/ops/schema/refresh", "").Status)
	return name
}

// measure runs one round and waits until the last accepted row can be read.
func (b *bed) measure(t *testing.T, p plan, bodies [][]string, target func(table string) string) result {
	t.Helper()
	table := b.table(t)
	before := map[string]time.Duration{"clickhouse": cpuOf(t, b.clickhouse.PID()), "wavehouse": cpuOf(t, b.server.PID())}
	start := time.Now()
	rows, took := post(t, p, target(table), "application/x-ndjson", bodies)
	harness.Eventually(t, 2*time.Minute, func() error {
		if got := b.clickhouse.Must(t, "SELECT count() FROM "+table); got != fmt.Sprint(rows) {
			return fmt.Errorf("%s of %d rows are visible", got, rows)
		}
		return nil
	})
	visible := time.Since(start)
	r := result{rows: rows, rowsPerSecond: float64(rows) / visible.Seconds(), p50: percentile(took, .5), p99: percentile(took, .99), cpu: map[string]time.Duration{}}
	r.cpu["clickhouse"] = (cpuOf(t, b.clickhouse.PID()) - before["clickhouse"]) / time.Duration(max(rows, 1))
	r.cpu["wavehouse"] = (cpuOf(t, b.server.PID()) - before["wavehouse"]) / time.Duration(max(rows, 1))
	b.clickhouse.Must(t, "DROP TABLE "+table)
	return r
}

func (b *bed) gateway(table string) string { return b.server.URL + "/v1/ingest?table=" + table }

func (b *bed) direct(table string) string {
	return b.clickhouse.URL() + "?query=" + url.QueryEscape("INSERT INTO "+table+" FORMAT JSONEachRow")
}

// TestBenchmarks is run by make bench; it fails only when something does not
// work, never for a time.
func TestBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	b := newBed(t)
	var lines []line
	for _, c := range []struct {
		what string
		plan plan
	}{
		{"single-row requests, 64 clients, visible rows/s", plan{clients: 64, rowsPerBody: 1}},
		{"100-row bodies, 16 clients, visible rows/s", plan{clients: 16, rowsPerBody: 100}},
		{"1,000-row bodies, 4 clients, visible rows/s", plan{clients: 4, rowsPerBody: 1000}},
	} {
		lines = append(lines, b.compare(t, c.what, c.plan)...)
	}
	lines = append(lines, b.costOfARow(t)...)
	lines = append(lines, b.singleRowBaselines(t)...)
	lines = append(lines, b.loneClient(t)...)
	lines = append(lines, b.whileClickHouseIsDown(t)...)
	report(t, "ingest", lines)
}

// compare alternates rounds against inserts of the same bodies straight into
// ClickHouse.
func (b *bed) compare(t *testing.T, what string, p plan) []line {
	t.Helper()
	p.during = *duration
	bodies := makeBodies(p, 20)
	var ours, theirs, ratios, oursCPU, theirsCPU, mine []float64
	var p99, directP99 []float64
	for range *rounds {
		us := b.measure(t, p, bodies, b.gateway)
		direct := b.measure(t, p, bodies, b.direct)
		ours, theirs = append(ours, us.rowsPerSecond), append(theirs, direct.rowsPerSecond)
		ratios = append(ratios, us.rowsPerSecond/direct.rowsPerSecond)
		oursCPU, theirsCPU = append(oursCPU, us.cpu["clickhouse"].Seconds()*1e6), append(theirsCPU, direct.cpu["clickhouse"].Seconds()*1e6)
		mine = append(mine, us.cpu["wavehouse"].Seconds()*1e6)
		p99, directP99 = append(p99, us.p99.Seconds()*1e3), append(directP99, direct.p99.Seconds()*1e3)
	}
	return []line{
		{what, fmt.Sprintf("%.0f", median(ours)), fmt.Sprintf("%.0f straight to ClickHouse", median(theirs)), fmt.Sprintf("%.2f", median(ratios))},
		{"— p99, ms", fmt.Sprintf("%.2f", median(p99)), fmt.Sprintf("%.2f", median(directP99)), fmt.Sprintf("%.2f", median(p99)/median(directP99))},
		{"— ClickHouse's CPU, µs/row", fmt.Sprintf("%.2f", median(oursCPU)), fmt.Sprintf("%.2f", median(theirsCPU)), fmt.Sprintf("%.2f", median(oursCPU)/median(theirsCPU))},
		{"— our CPU, µs/row", fmt.Sprintf("%.2f", median(mine)), "", ""},
	}
}

// costOfARow compares our CPU and allocations for rows in large bodies, from
// the door to the acknowledgement, with a parser that only looks at them.
func (b *bed) costOfARow(t *testing.T) []line {
	t.Helper()
	p := plan{clients: 4, rowsPerBody: 1000, during: *duration}
	bodies := makeBodies(p, 20)
	var ours, visit, ratios, allocations []float64
	for range *rounds {
		looking := b.mallocs(t)
		before := b.mallocs(t)
		looking = before - looking // what asking costs
		us := b.measure(t, p, bodies, b.gateway)
		allocations = append(allocations, (b.mallocs(t)-before-looking)/float64(us.rows))
		plain := visitRows(t, bodies[0], *duration/4)
		ours, visit = append(ours, us.cpu["wavehouse"].Seconds()*1e6), append(visit, plain.Seconds()*1e6)
		ratios = append(ratios, us.cpu["wavehouse"].Seconds()/plain.Seconds())
	}
	return []line{
		{"our CPU in 1,000-row bodies, µs/row", fmt.Sprintf("%.2f", median(ours)), fmt.Sprintf("%.2f fastjson visiting the row", median(visit)), fmt.Sprintf("%.2f", median(ratios))},
		{"— allocations per row", fmt.Sprintf("%.3f", median(allocations)), "", ""},
	}
}

// mallocs is how many allocations the server has made.
func (b *bed) mallocs(t *testing.T) float64 { return scrape(t, b.server)["go_memstats_mallocs_total"] }

// singleRowBaselines are the floor of a request, and a durable message per row.
func (b *bed) singleRowBaselines(t *testing.T) []line {
	t.Helper()
	p := plan{clients: 64, rowsPerBody: 1, during: *duration}
	bodies := makeBodies(p, 20)
	var ours, floor, stream, toFloor, toStream []float64
	for range *rounds {
		us := b.measure(t, p, bodies, b.gateway)
		rows, _ := post(t, p, b.floor, "application/x-ndjson", bodies)
		bare := float64(rows) / p.during.Seconds()
		messages := publishFsynced(t, p, bodies)
		ours, floor, stream = append(ours, us.rowsPerSecond), append(floor, bare), append(stream, messages)
		toFloor, toStream = append(toFloor, us.rowsPerSecond/bare), append(toStream, us.rowsPerSecond/messages)
	}
	return []line{
		{"single-row requests, 64 clients", fmt.Sprintf("%.0f", median(ours)), fmt.Sprintf("%.0f a handler that only reads the body", median(floor)), fmt.Sprintf("%.2f", median(toFloor))},
		{"", "", fmt.Sprintf("%.0f one fsynced JetStream message per row", median(stream)), fmt.Sprintf("%.2f", median(toStream))},
	}
}

// publishFsynced publishes one message per row into a stream that is synced
// for each, and returns messages a second.
func publishFsynced(t *testing.T, p plan, bodies [][]string) float64 {
	t.Helper()
	return publishEach(t, startJetStream(t), p, bodies)
}

// publishEach publishes one message per row to bench.row, and returns messages a second.
func publishEach(t *testing.T, js jetstream.JetStream, p plan, bodies [][]string) float64 {
	t.Helper()
	var mu sync.Mutex
	total := 0
	var wait sync.WaitGroup
	deadline := time.Now().Add(p.during)
	for c := range p.clients {
		wait.Go(func() {
			n := 0
			for i := 0; time.Now().Before(deadline); i++ {
				if _, err := js.Publish(t.Context(), "bench.row", []byte(bodies[c][i%len(bodies[c])])); err != nil {
					t.Errorf("publish: %v", err)
					return
				}
				n++
			}
			mu.Lock()
			total += n
			mu.Unlock()
		})
	}
	wait.Wait()
	return float64(total) / p.during.Seconds()
}

func startJetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "bench", DontListen: true, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	nc, err := nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.>"}})
	require.NoError(t, err)
	return js
}

// loneClient sends single rows one after the other.
func (b *bed) loneClient(t *testing.T) []line {
	t.Helper()
	p := plan{clients: 1, rowsPerBody: 1, during: *duration}
	bodies := makeBodies(p, 100)
	_, addr := startBare(t, "{\"ok\":true}\n", "-publish", t.TempDir())
	var ours, plain, behind []float64
	p50 := func(took []time.Duration) float64 { return percentile(took, .5).Seconds() * 1e6 }
	for range *rounds {
		table := b.table(t)
		_, took := post(t, p, b.gateway(table), "application/x-ndjson", bodies)
		_, bare := post(t, p, "http://"+addr+"/", "application/x-ndjson", bodies)
		ours, behind = append(ours, p50(took)), append(behind, p50(bare))
		plain = append(plain, p50(publishAlone(t, bodies[0][0])))
	}
	return []line{
		{"a lone client, single rows, p50 µs", fmt.Sprintf("%.0f", median(ours)),
			fmt.Sprintf("%.0f a bare fsynced publish, without HTTP", median(plain)), fmt.Sprintf("+%.0f µs", median(ours)-median(plain))},
		{"", "", fmt.Sprintf("%.0f a bare handler that does nothing but that publish", median(behind)), fmt.Sprintf("+%.0f µs", median(ours)-median(behind))},
	}
}

// publishAlone publishes one message after the other into an fsynced stream of
// this process.
func publishAlone(t *testing.T, body string) (took []time.Duration) {
	t.Helper()
	js := startJetStream(t)
	for deadline := time.Now().Add(*duration / 2); time.Now().Before(deadline); {
		start := time.Now()
		_, err := js.Publish(t.Context(), "bench.row", []byte(body))
		require.NoError(t, err)
		took = append(took, time.Since(start))
	}
	return took
}

// whileClickHouseIsDown accepts into the queue alone.
func (b *bed) whileClickHouseIsDown(t *testing.T) []line {
	t.Helper()
	p := plan{clients: 4, rowsPerBody: 1000, during: *duration}
	bodies := makeBodies(p, 5)
	table := b.table(t)
	_, _ = post(t, plan{clients: 1, rowsPerBody: 1, during: 200 * time.Millisecond}, b.gateway(table), "application/x-ndjson", makeBodies(plan{clients: 1, rowsPerBody: 1}, 1))
	b.clickhouse.Kill()
	var ours, raw, ratios []float64
	for range *rounds {
		rows, _ := post(t, p, b.gateway(table), "application/x-ndjson", bodies)
		us := float64(rows) / p.during.Seconds()
		messages := publishFsynced(t, p, bodies) * float64(p.rowsPerBody)
		ours, raw, ratios = append(ours, us), append(raw, messages), append(ratios, us/messages)
	}
	resident := residentOf(t, b.server.PID())
	b.clickhouse.Start(t)
	return []line{
		{"accepting while ClickHouse is down, 1,000-row bodies, rows/s", fmt.Sprintf("%.0f", median(ours)),
			fmt.Sprintf("%.0f raw fsynced JetStream, 1,000-row messages", median(raw)), fmt.Sprintf("%.2f", median(ratios))},
		{"— resident memory afterwards", fmt.Sprintf("%d MiB", resident>>20), "", ""},
	}
}
