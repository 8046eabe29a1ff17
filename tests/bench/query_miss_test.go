package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/telemetry"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// BenchmarkMiss is the uncached small question, one at a time, with the server
// in this process so that it can be profiled. Beside it the same statements go
// through Go's own reverse proxy, which is a process of its own, and straight to
// ClickHouse. What each costs is reported as CPU: of this process, which holds the
// load too, and of ClickHouse.
func BenchmarkMiss(b *testing.B) {
	d := newDesk(b)
	sent := d.statementOf(b, small)
	ours := d.ask(b, small, 0)
	engine := hostOf(b, d.clickhouse.URL())
	for _, c := range []struct {
		name, addr string
		request    []byte
	}{
		{"wavehouse", d.serveHere(b), ours}, {"proxy", startProxy(b, engine), sent}, {"direct", engine, sent},
	} {
		b.Run(c.name, func(b *testing.B) {
			next := d.unique([][]byte{slices.Clone(c.request)})
			conn, err := dialRaw(c.addr)
			require.NoError(b, err)
			defer conn.conn.Close()
			before, engineBefore := cpuHere(b), cpuOf(b, d.clickhouse.PID())
			b.ReportAllocs()
			for b.Loop() {
				answer, err := conn.do(next(0, 0))
				if err != nil || answer.status != http.StatusOK || answer.hit {
					b.Fatal(answer, err)
				}
			}
			b.ReportMetric(float64((cpuHere(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64((cpuOf(b, d.clickhouse.PID())-engineBefore).Nanoseconds())/1e3/float64(b.N), "engine-us/op")
		})
	}
}

// cpuHere is the CPU time that this process has used.
func cpuHere(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serveHere runs the server in this process and returns its address.
func (d *desk) serveHere(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	settings := &harness.Server{SettingsDir: filepath.Join(dir, "settings"), DataDir: filepath.Join(dir, "data")}
	require.NoError(b, os.CopyFS(settings.SettingsDir, os.DirFS(d.server.SettingsDir)))
	cfg, _, err := config.Load([]string{
		"WH_SERVER_HOST=127.0.0.1", "WH_SERVER_PORT=0", "WH_SETTINGS_DIR=" + settings.SettingsDir, "WH_DATA_DIR=" + settings.DataDir,
		"WH_CONFIG=" + filepath.Join(dir, "none.yaml"), "WH_AUTH_OPERATOR_KEY=" + harness.OperatorKey, "WH_AUTH_JWT_SECRET=" + benchSecret,
	}, nil)
	require.NoError(b, err)
	logger, err := telemetry.NewLogger(io.Discard, telemetry.LogOptions{Format: "json"})
	require.NoError(b, err)
	listening := make(chan net.Addr, 1)
	ctx, cancel := context.WithCancel(context.Background())
	server, err := app.New(ctx, app.Options{Config: cfg, Logger: logger, Started: func(at net.Addr) { listening <- at }})
	require.NoError(b, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-ended)
	})
	addr := (<-listening).String()
	request := d.ask(b, small, 0)
	harness.Eventually(b, 30*time.Second, func() error {
		conn, err := dialRaw(addr)
		if err != nil {
			return err
		}
		defer conn.conn.Close()
		answer, err := conn.do(request)
		if err == nil && answer.status != http.StatusOK {
			err = fmt.Errorf("answered with status %s", strconv.Itoa(answer.status))
		}
		return err
	})
	return addr
}

// byHand is the small question as one writes it to ClickHouse: the same rows,
// one object a line, and no settings.
func (d *desk) byHand() []byte {
	return rawRequest("/", "SELECT page, duration_ms, score FROM events WHERE page != 'reader-0' AND event = 'buy' AND duration_ms != "+mark+
		" LIMIT 10 FORMAT JSONEachRow")
}

// contender answers the small question.
type contender struct {
	addr string
	next func(c, i int) []byte
	rate []float64
	p99  []float64
}

func (d *desk) contend(addr string, clients int, request func(c int) []byte) *contender {
	requests := make([][]byte, clients)
	for c := range requests {
		requests[c] = request(c)
	}
	return &contender{addr: addr, next: d.unique(requests)}
}

// misses asks small questions that nobody asked before. Beside it ClickHouse is
// asked with the very same requests and with the statement as one writes it by
// hand, each directly and through a plain proxy.
func (d *desk) misses(t *testing.T, clients int) []line {
	t.Helper()
	sent := d.statementOf(t, small)
	same := func(int) []byte { return slices.Clone(sent) }
	engine := hostOf(t, d.clickhouse.URL())
	ours := d.contend(hostOf(t, d.server.URL), clients, func(c int) []byte { return d.ask(t, small, c) })
	proxy := startProxy(t, engine)
	direct, proxied := d.contend(engine, clients, same), d.contend(proxy, clients, same)
	byHand := func(int) []byte { return d.byHand() }
	plain, plainProxied := d.contend(engine, clients, byHand), d.contend(proxy, clients, byHand)
	all := []*contender{ours, direct, proxied, plain, plainProxied}
	var cpu, engineCPU []float64
	for round := range *rounds {
		for i := range all {
			one := all[(round+i)%len(all)]
			before, engineBefore := cpuOf(t, d.server.PID()), cpuOf(t, d.clickhouse.PID())
			b := hammer(t, one.addr, clients, *duration, 0, one.next)
			require.NotZero(t, b.requests)
			require.Zero(t, b.hits, "every question is a new one")
			one.rate, one.p99 = append(one.rate, b.perSecond()), append(one.p99, percentile(b.took, .99).Seconds()*1e3)
			if one == ours {
				cpu = append(cpu, float64((cpuOf(t, d.server.PID())-before).Microseconds())/float64(b.requests))
				engineCPU = append(engineCPU, float64((cpuOf(t, d.clickhouse.PID())-engineBefore).Microseconds())/float64(b.requests))
			}
		}
	}
	beside := func(what string, other *contender, name string) line {
		ratios := make([]float64, len(ours.rate))
		for i := range ratios {
			ratios[i] = ours.rate[i] / other.rate[i]
		}
		return line{what, fmt.Sprintf("%.0f", median(ours.rate)), fmt.Sprintf("%.0f %s", median(other.rate), name), spread(ratios)}
	}
	return []line{
		beside(fmt.Sprintf("uncached small queries/s, clients: %d", clients), direct, "ClickHouse, the very same requests"),
		beside("— beside a proxy", proxied, "the same requests through a plain Go proxy"),
		beside("— beside the statement by hand", plain, "ClickHouse, the same rows without our settings"),
		beside("— beside that through a proxy", plainProxied, "the statement by hand through a plain Go proxy"),
		{"— p99, ms", fmt.Sprintf("%.2f", median(ours.p99)), fmt.Sprintf("%.2f", median(direct.p99)), fmt.Sprintf("%.2f", median(ours.p99)/median(direct.p99))},
		{"— our CPU, µs a query", fmt.Sprintf("%.0f", median(cpu)), fmt.Sprintf("%.0f ClickHouse's meanwhile", median(engineCPU)),
			fmt.Sprintf("%.2f", median(cpu)/median(engineCPU))},
	}
}
