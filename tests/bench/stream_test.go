package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

const (
	benchSecret = "a-secret-of-the-benchmarks-only-0123456789"
	benchRoles  = 100
)

// windowFor is how many rows saturating publishers have on their way at once:
// they hold back until the readers have kept up, so that both servers are
// measured at the rate they sustain and nothing is dropped. What is on its way
// is also what a row waits behind, so many readers get a smaller one.
func windowFor(readers int) int { return max(8, min(32, 8000/readers)) }

// stage is the two servers that are measured in turn.
type stage struct {
	clickhouse *harness.ClickHouse
	server     *harness.Server
	floor      *harness.Process
	floorURL   string
	client     *http.Client
	publishers rawConns
	table      string
	tables     int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{clickhouse: harness.StartClickHouse(t, binaries.Dir(t)), publishers: rawConns{idle: map[string][]idleConn{}}}
	s.server = harness.StartServer(t, harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: s.clickhouse,
		Config: map[string]string{"stream": `{"keepalive_interval":3600,"gap_window_minutes":1}`},
		Env:    []string{"WH_AUTH_JWT_SECRET=" + benchSecret},
	})
	s.server.WriteFile(t, "roles.json", roleNames(t))
	s.server.WriteFile(t, "policies.json", rolePolicies(t))
	answer := s.server.Ops(t, http.MethodPost, "/v1/ops/settings/reload", "")
	require.Equal(t, http.StatusOK, answer.Status, answer.Body)
	s.server.AwaitReady(t)
	s.startFloor(t)
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: time.Minute}
	t.Cleanup(s.client.CloseIdleConnections)
	t.Cleanup(s.publishers.close)
	s.newTable(t)
	return s
}

func (s *stage) startFloor(t *testing.T) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "broadcaster")
	build := exec.Command("go", "build", "-o", bin, "./tests/bench/broadcaster")
	build.Dir = harness.Root(t)
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	s.floor = harness.StartProcess(t, t.TempDir(), nil, bin)
	harness.Eventually(t, 10*time.Second, func() error {
		addr := strings.TrimSpace(s.floor.Output())
		if addr == "" {
			return fmt.Errorf("the broadcaster does not listen yet")
		}
		s.floorURL = "http://" + addr
		return nil
	})
}

// newTable gives the next round a table of its own.
func (s *stage) newTable(t *testing.T) {
	t.Helper()
	s.tables++
	s.table = fmt.Sprintf("events_%d", s.tables)
	s.clickhouse.Must(t, "CREATE TABLE "+s.table+" "+eventTable)
	answer := s.server.Ops(t, http.MethodPost, "/v1/ops/schema/refresh", "")
	require.Equal(t, http.StatusOK, answer.Status, answer.Body)
}

func roleName(i int) string { return fmt.Sprintf("r%d", i) }

func roleNames(t *testing.T) string {
	t.Helper()
	names := []string{"public"}
	for i := range benchRoles {
		names = append(names, roleName(i))
	}
	text, err := json.Marshal(map[string]any{"roles": names})
	require.NoError(t, err)
	return string(text)
}

// rolePolicies gives each role a filter of its own that every row passes, so
// that rounds with and without filters deliver the same.
func rolePolicies(t *testing.T) string {
	t.Helper()
	all := map[string]any{}
	for i := range benchRoles {
		filter := map[string]any{"referrer": map[string]any{"_neq": "nobody/" + roleName(i)}}
		all[roleName(i)] = map[string]any{"select": map[string]any{"filter": filter}}
	}
	all["public"] = map[string]any{"select": map[string]any{}, "insert": map[string]any{}}
	text, err := json.Marshal(map[string]any{"default_role": "public", "tables": map[string]any{"*": all}})
	require.NoError(t, err)
	return string(text)
}

// asRole is the header of reader i, each a hundredth of the readers a role.
func asRole(t *testing.T) func(i int) string {
	t.Helper()
	var tokens [benchRoles]string
	for i := range tokens {
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"role": roleName(i)}).SignedString([]byte(benchSecret))
		require.NoError(t, err)
		tokens[i] = text
	}
	return func(i int) string { return "Authorization: Bearer " + tokens[i%benchRoles] + "\r\n" }
}

// side is one of the two servers.
type side struct {
	name            string
	publish, stream string
	pid             int
}

func (s *stage) ours() side {
	return side{"WaveHouse", s.server.URL + "/v1/ingest?table=" + s.table, s.server.URL + "/v1/stream?table=" + s.table, s.server.PID()}
}

func (s *stage) bare() side {
	return side{"bare broadcaster", s.floorURL + "/publish", s.floorURL + "/stream", s.floor.PID()}
}

// stamped is a row that says when it was sent.
func stamped(random *rowSource) string {
	row := random.row()
	at := strings.Index(row, `"session_id":"s-`) + len(`"session_id":"`)
	return fmt.Sprintf("%st%019d%s", row[:at], time.Now().UnixNano(), row[at+len("s-")+16:])
}

// send publishes a row on a kept connection that nobody uses.
func (s *stage) send(to side, row string) error {
	target, err := url.Parse(to.publish)
	if err != nil {
		return err
	}
	conn, err := s.publishers.take(target.Host)
	if err != nil {
		return err
	}
	answer, err := conn.do(rawRequest(target.RequestURI(), row, "Content-Type", "application/json"))
	if err == nil && answer.status != http.StatusOK {
		err = fmt.Errorf("answered with status %d", answer.status)
	}
	if err != nil {
		_ = conn.conn.Close()
		return err
	}
	s.publishers.giveBack(target.Host, conn)
	return nil
}

// outcome is one round of one server.
type outcome struct {
	perSecond float64 // deliveries
	cpu       float64 // of the server, µs a delivery
	p50, p99  time.Duration
	answered  time.Duration // p50 of the publisher's own answer
}

// saturate publishes as fast as all readers keep up.
func (s *stage) saturate(t *testing.T, to side, readers int, header func(int) string) outcome {
	t.Helper()
	a := newAudience(t, to.stream, readers, header)
	defer a.close()
	var sent atomic.Int64
	window := windowFor(readers)
	publish := func(until time.Time, publishers int) {
		var wait sync.WaitGroup
		for i := range publishers {
			random := newRowSource(uint64(i))
			wait.Go(func() {
				for time.Now().Before(until) {
					if sent.Add(1)*int64(readers)-a.rows() > int64(window*readers) {
						sent.Add(-1)
						time.Sleep(100 * time.Microsecond)
						continue
					}
					if err := s.send(to, stamped(random)); err != nil {
						t.Errorf("publish to %s: %v", to.name, err)
						return
					}
				}
			})
		}
		wait.Wait()
	}
	publish(time.Now().Add(*duration/4), window)
	s.arrived(t, a, sent.Load()*int64(readers))
	a.taken()
	rows, cpu, start := a.rows(), cpuOf(t, to.pid), time.Now()
	publish(start.Add(*duration), window)
	s.arrived(t, a, sent.Load()*int64(readers))
	took := time.Since(start)
	return s.outcome(t, a, to, rows, cpu, took)
}

func (s *stage) outcome(t *testing.T, a *audience, to side, rows int64, cpu, took time.Duration) outcome {
	t.Helper()
	delivered := float64(a.rows() - rows)
	sample := a.taken()
	return outcome{
		perSecond: delivered / took.Seconds(), cpu: float64((cpuOf(t, to.pid) - cpu).Microseconds()) / max(delivered, 1),
		p50: percentile(sample, .5), p99: percentile(sample, .99),
	}
}

// arrived waits until every reader has every row: a round that loses one fails.
func (s *stage) arrived(t *testing.T, a *audience, want int64) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		if got := a.rows(); got != want {
			return fmt.Errorf("%d of %d deliveries", got, want)
		}
		return nil
	})
}

// paced publishes rows a second one by one.
func (s *stage) paced(t *testing.T, to side, a *audience, perSecond int, during time.Duration) outcome {
	t.Helper()
	random := newRowSource(7)
	a.taken()
	rows, cpu, start := a.rows(), cpuOf(t, to.pid), time.Now()
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	var answers []time.Duration
	for time.Since(start) < during {
		<-tick.C
		began := time.Now()
		require.NoError(t, s.send(to, stamped(random)))
		answers = append(answers, time.Since(began))
	}
	if len(a.conns) > 0 {
		s.arrived(t, a, rows+int64(len(answers)*len(a.conns)))
	}
	got := s.outcome(t, a, to, rows, cpu, time.Since(start))
	got.answered = percentile(answers, .5)
	return got
}

// TestStreamBenchmarks is run by make bench; it fails when a row is lost or
// repeated, never for a time.
func TestStreamBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	s := newStage(t)
	lines := s.idleMemory(t) // first, while the servers hold nothing else
	for _, readers := range []int{1, 100, 1000} {
		lines = append(lines, s.compareSaturated(t, readers)...)
	}
	lines = append(lines, s.compareFilters(t)...)
	for _, readers := range []int{1, 100, 1000} {
		lines = append(lines, s.comparePaced(t, readers)...)
	}
	lines = append(lines, s.stalledReader(t)...)
	lines = append(lines, s.costOfReadersElsewhere(t)...)
	lines = append(lines, s.polling(t)...)
	report(t, "streams", lines)
}

func (s *stage) compareSaturated(t *testing.T, readers int) []line {
	t.Helper()
	var ours, bare, ratios, cpu, bareCPU, p99, bareP99 []float64
	for range *rounds {
		s.newTable(t)
		us := s.saturate(t, s.ours(), readers, nil)
		them := s.saturate(t, s.bare(), readers, nil)
		ours, bare, ratios = append(ours, us.perSecond), append(bare, them.perSecond), append(ratios, us.perSecond/them.perSecond)
		cpu, bareCPU = append(cpu, us.cpu), append(bareCPU, them.cpu)
		p99, bareP99 = append(p99, millis(us.p99)), append(bareP99, millis(them.p99))
	}
	return []line{
		{fmt.Sprintf("%d readers of one table, saturated, deliveries/s", readers), fmt.Sprintf("%.0f", median(ours)),
			fmt.Sprintf("%.0f bare broadcaster", median(bare)), spread(ratios)},
		{"— CPU a delivery, µs", fmt.Sprintf("%.2f", median(cpu)), fmt.Sprintf("%.2f", median(bareCPU)), fmt.Sprintf("%.2f", median(cpu)/median(bareCPU))},
		{"— publish to receive p99, ms", fmt.Sprintf("%.1f", median(p99)), fmt.Sprintf("%.1f", median(bareP99)), ""},
	}
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

// spread is a median with the lowest and the highest.
func spread(values []float64) string {
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(values), low, high)
}

// compareFilters gives a hundred roles a row filter each.
func (s *stage) compareFilters(t *testing.T) []line {
	t.Helper()
	header := asRole(t)
	var with, without, ratios, cpu, plainCPU []float64
	for range *rounds {
		s.newTable(t)
		plain := s.saturate(t, s.ours(), 1000, nil)
		filtered := s.saturate(t, s.ours(), 1000, header)
		with, without, ratios = append(with, filtered.perSecond), append(without, plain.perSecond), append(ratios, filtered.perSecond/plain.perSecond)
		cpu, plainCPU = append(cpu, filtered.cpu), append(plainCPU, plain.cpu)
	}
	return []line{
		{"1000 readers over 100 roles, a row filter each, deliveries/s", fmt.Sprintf("%.0f", median(with)),
			fmt.Sprintf("%.0f without filters", median(without)), spread(ratios)},
		{"— CPU a delivery, µs", fmt.Sprintf("%.2f", median(cpu)), fmt.Sprintf("%.2f", median(plainCPU)), fmt.Sprintf("%.2f", median(cpu)/median(plainCPU))},
	}
}

func (s *stage) comparePaced(t *testing.T, readers int) []line {
	t.Helper()
	var p50, p99, answered, bareP50, bareP99 []float64
	for range *rounds {
		for _, to := range []side{s.ours(), s.bare()} {
			a := newAudience(t, to.stream, readers, nil)
			got := s.paced(t, to, a, 100, *duration)
			a.close()
			if to.name == "WaveHouse" {
				p50, p99 = append(p50, millis(got.p50)), append(p99, millis(got.p99))
				answered = append(answered, millis(got.answered))
			} else {
				bareP50, bareP99 = append(bareP50, millis(got.p50)), append(bareP99, millis(got.p99))
			}
		}
	}
	return []line{
		{fmt.Sprintf("100 durable rows/s, %d readers, publish to receive p50, ms", readers), fmt.Sprintf("%.2f", median(p50)),
			fmt.Sprintf("%.2f bare broadcaster, nothing stored", median(bareP50)), ""},
		{"— until the publisher itself has its answer, p50, ms", fmt.Sprintf("%.2f", median(answered)), "", ""},
		{"— p99, ms", fmt.Sprintf("%.2f", median(p99)), fmt.Sprintf("%.2f", median(bareP99)), ""},
	}
}

// idleMemory opens readers that nothing is sent to.
func (s *stage) idleMemory(t *testing.T) []line {
	t.Helper()
	const readers = 2000
	per := func(to side) float64 {
		newAudience(t, to.stream, 1, nil).close() // what the first reader alone costs
		before := residentOf(t, to.pid)
		a := newAudience(t, to.stream, readers, nil)
		defer a.close()
		return float64(residentOf(t, to.pid)-before) / readers / 1024
	}
	ours, bare := per(s.ours()), per(s.bare())
	return []line{{"memory of an idle reader with its connection, KiB", fmt.Sprintf("%.1f", ours), fmt.Sprintf("%.1f bare broadcaster", bare), fmt.Sprintf("%.2f", ours/bare)}}
}

// stalledReader adds one that never reads and is stuck for good: the system's
// buffers of its connection are full before the clock runs.
func (s *stage) stalledReader(t *testing.T) []line {
	t.Helper()
	var with, without []float64
	to := s.ours()
	a := newAudience(t, to.stream, 99, nil)
	defer a.close()
	measure := func() float64 { return millis(s.paced(t, to, a, 100, *duration).p99) }
	for range *rounds {
		s.flood(t, to, a) // here too: what it leaves to do is in both rounds
		without = append(without, measure())
		stalled := stall(t, to.stream)
		s.flood(t, to, a)
		with = append(with, measure())
		_ = stalled.Close()
	}
	return []line{{"100 rows/s, 99 readers and one that never reads, p99, ms", fmt.Sprintf("%.2f", median(with)),
		fmt.Sprintf("%.2f without the stalled one", median(without)), fmt.Sprintf("%.2f", median(with)/median(without))}}
}

// flood sends several megabytes, and waits until all who read have them.
func (s *stage) flood(t *testing.T, to side, a *audience) {
	t.Helper()
	const bodies, rows = 150, 100
	random := newRowSource(3)
	before := a.rows()
	for range bodies {
		require.NoError(t, postOne(s.client, to.publish, "application/x-ndjson", random.body(rows)))
	}
	s.arrived(t, a, before+bodies*rows*int64(len(a.conns)))
}

// stall opens a stream, with hardly any buffer, and reads nothing.
func stall(t *testing.T, target string) net.Conn {
	t.Helper()
	host, path, _ := strings.Cut(strings.TrimPrefix(target, "http://"), "/")
	conn, err := net.Dial("tcp", host)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(conn, "GET /%s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host)
	require.NoError(t, err)
	return conn
}

// costOfReadersElsewhere measures ingest without any reader, and with readers
// of another table.
func (s *stage) costOfReadersElsewhere(t *testing.T) []line {
	t.Helper()
	other := s.ours().stream
	s.newTable(t)
	p := plan{clients: 16, rowsPerBody: 1, during: *duration}
	bodies := makeBodies(p, 20)
	round := func() float64 {
		cpu := cpuOf(t, s.server.PID())
		rows, _ := post(t, p, s.ours().publish, "application/json", bodies)
		return float64((cpuOf(t, s.server.PID()) - cpu).Microseconds()) / float64(rows)
	}
	var without, with []float64
	for range *rounds {
		without = append(without, round())
		a := newAudience(t, other, 1000, nil)
		with = append(with, round())
		a.close()
	}
	return []line{{"our CPU for a row while 1000 readers follow another table, µs", fmt.Sprintf("%.1f", median(with)),
		fmt.Sprintf("%.1f without any reader", median(without)), fmt.Sprintf("%.2f", median(with)/median(without))}}
}

// polling is the other way to show new rows: a query a second.
func (s *stage) polling(t *testing.T) []line {
	t.Helper()
	const clients = 100
	during := 2 * *duration
	burn := func(run func()) float64 {
		us, ch := cpuOf(t, s.server.PID()), cpuOf(t, s.clickhouse.PID())
		run()
		return float64((cpuOf(t, s.server.PID()) - us + cpuOf(t, s.clickhouse.PID()) - ch).Milliseconds()) / during.Seconds()
	}
	quiet := &audience{}
	publishing := func() { s.paced(t, s.ours(), quiet, 100, during) }
	alone := burn(publishing)
	polled := burn(func() {
		var wait sync.WaitGroup
		for i := range clients {
			wait.Go(func() { s.poll(t, i, time.Now().Add(during)) })
		}
		publishing()
		wait.Wait()
	})
	a := newAudience(t, s.ours().stream, clients, nil)
	defer a.close()
	streamed := burn(func() { s.paced(t, s.ours(), a, 100, during) })
	return []line{{"100 rows/s to 100 readers, CPU of the server and ClickHouse beyond ingest, ms a second", fmt.Sprintf("%.0f", streamed-alone),
		fmt.Sprintf("%.0f when each asks `POST /v1/query` once a second, for rows half a second old", polled-alone), fmt.Sprintf("%.2f", (streamed-alone)/(polled-alone))}}
}

func (s *stage) poll(t *testing.T, i int, until time.Time) {
	time.Sleep(time.Duration(i) * 10 * time.Millisecond)
	for time.Now().Before(until) {
		start := time.Now()
		response, err := s.client.Post(s.server.URL+"/v1/query?table="+s.table, "application/json",
			strings.NewReader(`{"select_all":true,"order_by":[{"column":"at","dir":"desc"}],"limit":100}`))
		if err != nil {
			t.Errorf("poll: %v", err)
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		time.Sleep(time.Second - time.Since(start))
	}
}
