package bench

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

var base = flag.String("base", "", "directory with a wavehouse binary of another version to compare this one with")

// version is one of the binaries that take turns.
type version struct {
	name, bin string
	figures   map[string][]float64
}

func (v *version) note(figure string, value float64) {
	v.figures[figure] = append(v.figures[figure], value)
}

// TestCompareWithBase runs this version's binary and another one's in turns on
// one ClickHouse. The other one runs twice, so that the second shows what
// chance alone does. It is run by make bench-compare, and fails only when
// something does not work.
func TestCompareWithBase(t *testing.T) {
	if *base == "" {
		t.Skip("-base names no other version")
	}
	versions := []*version{
		{"before", *base, map[string][]float64{}},
		{"this", binaries.Dir(t), map[string][]float64{}},
		{"before again", *base, map[string][]float64{}},
	}
	order := &[]figure{}
	require.True(t, t.Run("ingest", func(t *testing.T) { compareIngest(t, versions, order) }))
	require.True(t, t.Run("queries", func(t *testing.T) { compareQueries(t, versions, order) }))
	require.True(t, t.Run("streams", func(t *testing.T) { compareStreams(t, versions, order) }))
	require.True(t, t.Run("tenants", func(t *testing.T) { compareTenants(t, versions, order) }))
	t.Log("\n" + comparison(versions, *order))
}

// figure is what is compared; of a cost less is better.
type figure struct {
	name string
	cost bool
}

// inTurns runs a round of each version after the other, beginning with another
// one each time.
func inTurns(versions []*version, round func(i int, v *version)) {
	for r := range *rounds {
		for n := range versions {
			i := (r + n) % len(versions)
			round(i, versions[i])
		}
	}
}

// comparison has a row for each figure: medians, and this version's as a share
// of the one before, turned so that more is better. The last column is the same
// of the one before against itself.
func comparison(versions []*version, order []figure) string {
	var out strings.Builder
	out.WriteString("| figure | before | this | this / before | before / before |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range order {
		before, this, again := versions[0].figures[f.name], versions[1].figures[f.name], versions[2].figures[f.name]
		share := func(of []float64) string {
			ratios := make([]float64, len(of))
			for i := range of {
				ratios[i] = of[i] / before[i]
				if f.cost {
					ratios[i] = before[i] / of[i]
				}
			}
			return spread(ratios)
		}
		fmt.Fprintf(&out, "| %s | %.4g | %.4g | %s | %s |\n", f.name, median(before), median(this), share(this), share(again))
	}
	return out.String()
}

func compareIngest(t *testing.T, versions []*version, order *[]figure) {
	clickhouse := harness.StartNativeClickHouse(t, binaries.Dir(t))
	beds := make([]*bed, len(versions))
	for i, v := range versions {
		beds[i] = &bed{clickhouse: clickhouse, server: harness.StartServer(t, harness.ServerOptions{
			Bin: v.bin, ClickHouse: clickhouse, Config: map[string]string{"stream": `{"gap_window_minutes":0}`},
		})}
		beds[i].server.AwaitReady(t)
	}
	for _, p := range []plan{{clients: 64, rowsPerBody: 1}, {clients: 16, rowsPerBody: 100}, {clients: 4, rowsPerBody: 1000}} {
		p.during = *duration
		bodies := makeBodies(p, 20)
		rate, cpu := fmt.Sprintf("rows/s, %d-row bodies, %d clients", p.rowsPerBody, p.clients), fmt.Sprintf("CPU of a row, %d-row bodies, µs", p.rowsPerBody)
		*order = append(*order, figure{rate, false}, figure{cpu, true})
		inTurns(versions, func(i int, v *version) {
			r := beds[i].measure(t, p, bodies, beds[i].gateway)
			v.note(rate, r.rowsPerSecond)
			v.note(cpu, r.cpu["wavehouse"].Seconds()*1e6)
		})
	}
}

func compareQueries(t *testing.T, versions []*version, order *[]figure) {
	shared := newDeskOn(t, harness.StartNativeClickHouse(t, binaries.Dir(t)))
	servers := make([]*harness.Server, len(versions))
	for i, v := range versions {
		servers[i] = harness.StartServer(t, harness.ServerOptions{
			Bin: v.bin, ClickHouse: shared.clickhouse, Policies: readPolicies, Env: []string{"WH_AUTH_JWT_SECRET=" + benchSecret},
		})
		servers[i].AwaitReady(t)
	}
	for _, q := range []struct {
		what, document string
		clients        int
		fresh          bool
	}{{"cache hits", dashboard, readers, false}, {"uncached queries", small, 8, true}, {"uncached queries", small, 1, true}} {
		requests := make([][]byte, q.clients)
		for c := range requests {
			requests[c] = shared.ask(t, q.document, c)
		}
		next := func(c, _ int) []byte { return requests[c] }
		if q.fresh {
			next = shared.unique(requests)
		}
		rate, cpu := fmt.Sprintf("%s/s, %d clients", q.what, q.clients), fmt.Sprintf("CPU of %s, %d clients, µs", q.what, q.clients)
		*order = append(*order, figure{rate, false}, figure{cpu, true})
		inTurns(versions, func(i int, v *version) {
			m := measure(t, servers[i].PID(), hostOf(t, servers[i].URL), q.clients, next)
			v.note(rate, m.perSecond())
			v.note(cpu, m.cpu)
		})
	}
}

func compareStreams(t *testing.T, versions []*version, order *[]figure) {
	clickhouse := harness.StartNativeClickHouse(t, binaries.Dir(t))
	stages := make([]*stage, len(versions))
	for i, v := range versions {
		s := &stage{clickhouse: clickhouse, publishers: rawConns{idle: map[string][]idleConn{}}, tables: i * 1000}
		s.server = harness.StartServer(t, harness.ServerOptions{
			Bin: v.bin, ClickHouse: clickhouse, Config: map[string]string{"stream": `{"keepalive_interval":3600,"gap_window_minutes":1}`},
		})
		s.server.AwaitReady(t)
		t.Cleanup(s.publishers.close)
		stages[i] = s
	}
	for _, n := range []int{1, 100, 1000} {
		rate, cpu := fmt.Sprintf("deliveries/s, %d readers", n), fmt.Sprintf("CPU of a delivery, %d readers, µs", n)
		*order = append(*order, figure{rate, false}, figure{cpu, true})
		inTurns(versions, func(i int, v *version) {
			s := stages[i]
			s.newTable(t)
			got := s.saturate(t, side{v.name, s.server.URL + "/v1/ingest?table=" + s.table, s.server.URL + "/v1/stream?table=" + s.table, s.server.PID()}, n, nil)
			v.note(rate, got.perSecond)
			v.note(cpu, got.cpu)
		})
	}
}

// compareTenants starts each version anew for each round.
func compareTenants(t *testing.T, versions []*version, order *[]figure) {
	const tenants = 1000
	*order = append(*order, figure{"serving 1,000 tenants after, s", true}, figure{"memory of 1,000 tenants, MiB", true}, figure{"first writes of 1,000 tenants, s", true})
	clickhouse := harness.StartNativeClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE events "+eventTable)
	var started atomic.Int64
	inTurns(versions, func(_ int, v *version) {
		t.Run(fmt.Sprintf("%s %d", v.name, started.Add(1)), func(t *testing.T) {
			s := harness.NewNested(t, harness.ServerOptions{Bin: v.bin, ClickHouse: clickhouse}, tenantNames(tenants)...)
			begun := time.Now()
			s.Start(t)
			v.note("serving 1,000 tenants after, s", s.ServingSince(t).Sub(begun).Seconds())
			awaitTenants(t, s, tenants)
			require.Equal(t, http.StatusOK, s.Do(t, http.MethodGet, "/healthz", "").Status)
			v.note("memory of 1,000 tenants, MiB", float64(residentOf(t, s.PID()))/(1<<20))
			v.note("first writes of 1,000 tenants, s", writeOnce(t, s, tenants).Seconds())
		})
	})
}
