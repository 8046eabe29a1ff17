package bench

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// TestSharedCacheBenchmarks measures hits in a Redis on this machine beside hits in
// the process.
func TestSharedCacheBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	redis := redistest.Start(t, redistest.Redis, "--save", "")
	d := newDesk(t)
	shared := harness.StartServer(t, harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: d.clickhouse, Policies: readPolicies,
		Env: []string{"WH_AUTH_JWT_SECRET=" + benchSecret, "WH_CACHE_BACKEND=redis", "WH_CACHE_REDIS_ADDRS=" + redis.Addr()},
	})
	shared.AwaitReady(t)
	requests := make([][]byte, readers)
	for i := range requests {
		requests[i] = d.ask(t, dashboard, i)
	}
	next := func(c, _ int) []byte { return requests[c] }
	first := d.server.Do(t, http.MethodPost, "/v1/query?table=events", dashboard, "Authorization", reader(t, 0))
	require.Equal(t, http.StatusOK, first.Status, first.Body)
	near, far := hostOf(t, d.server.URL), hostOf(t, shared.URL)
	for host, server := range map[string]*harness.Server{near: d.server, far: shared} {
		hammer(t, host, readers, 4**duration, pace, next) // until cached answers are trusted
		before := hitsOf(t, server)
		b := hammer(t, host, readers, *duration/4, 0, next)
		require.Greater(t, hitsOf(t, server)-before, b.requests/2, "hits of %s", host)
	}
	var rates, ours, theirs, cpu, cpuNear, calm, calmNear []float64
	for range *rounds {
		us := measure(t, shared.PID(), far, readers, next)
		local := measure(t, d.server.PID(), near, readers, next)
		ours, theirs = append(ours, us.perSecond()), append(theirs, local.perSecond())
		rates = append(rates, us.perSecond()/local.perSecond())
		cpu, cpuNear = append(cpu, us.cpu), append(cpuNear, local.cpu)
		paced, pacedNear := hammer(t, far, readers, *duration, pace, next), hammer(t, near, readers, *duration, pace, next)
		calm, calmNear = append(calm, percentile(paced.took, .5).Seconds()*1e3), append(calmNear, percentile(pacedNear.took, .5).Seconds()*1e3)
	}
	report(t, "shared cache", []line{
		{fmt.Sprintf("hits/s in Redis, %d clients, %d bytes", readers, len(first.Body)), fmt.Sprintf("%.0f", median(ours)),
			fmt.Sprintf("%.0f hits in the process", median(theirs)), spread(rates)},
		{"— CPU of the server, µs a request", fmt.Sprintf("%.1f", median(cpu)), fmt.Sprintf("%.1f", median(cpuNear)), fmt.Sprintf("%.2f", median(cpu)/median(cpuNear))},
		{fmt.Sprintf("— p50, ms, at %.0f/s", readers/pace.Seconds()), fmt.Sprintf("%.2f", median(calm)), fmt.Sprintf("%.2f", median(calmNear)),
			fmt.Sprintf("+%.2f ms", median(calm)-median(calmNear))},
	})
}

// hitsOf is how many questions a server answered from its cache.
func hitsOf(t *testing.T, s *harness.Server) (n int) {
	t.Helper()
	const series = `wavehouse_cache_reads_total{outcome="hit"} `
	_, value, _ := strings.Cut(s.Do(t, http.MethodGet, "/metrics", "").Body, series)
	number, _, _ := strings.Cut(value, "\n")
	f, err := strconv.ParseFloat(number, 64)
	require.NoError(t, err)
	return int(f)
}
