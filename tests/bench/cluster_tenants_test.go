package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClusterTenantsBenchmarks is a thousand tenants on one NATS cluster, beside as
// many with embedded queues.
func TestClusterTenantsBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	const tenants = 1000
	s := newService(t, 4)
	before := s.assets(t)
	on := many(t, tenants, s.env("many", "api,ingest,sweeper")...)
	require.Equal(t, before, s.assets(t), "streams and durables of the cluster")
	embedded := many(t, tenants)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()*1e3) }
	mib := func(n int64) string { return fmt.Sprint(n >> 20) }
	row := func(what string, show func(m manyTenants) string) line {
		return line{what, show(on), show(embedded) + " embedded", ""}
	}
	report(t, "cluster tenants", []line{
		row("start until it listens, ms", func(m manyTenants) string { return ms(m.boot) }),
		row("start until the tables of all are known, ms", func(m manyTenants) string { return ms(m.known) }),
		row("never wrote: heap and stacks, MiB", func(m manyTenants) string { return mib(m.idle.live) }),
		row("— resident, MiB", func(m manyTenants) string { return mib(m.idle.resident) }),
		row("all wrote, queues empty: heap and stacks, MiB", func(m manyTenants) string { return mib(m.wrote.live) }),
		row("— resident, MiB", func(m manyTenants) string { return mib(m.wrote.resident) }),
		row("— goroutines", func(m manyTenants) string { return fmt.Sprint(m.wrote.goroutines) }),
		row("— CPU of the process meanwhile, ms a second", func(m manyTenants) string { return fmt.Sprintf("%.0f", m.cpu) }),
		row("first rows, tenants/s", func(m manyTenants) string { return fmt.Sprintf("%.0f", m.first) }),
		{"streams and durables of a further tenant", "0", "1 and 1 embedded", ""},
	})
}

// manyTenants is what they cost.
type manyTenants struct {
	boot, known time.Duration
	idle, wrote footprint
	cpu         float64 // ms a second, with nothing to do
	first       float64 // tenants a second
}

func many(t *testing.T, n int, env ...string) (m manyTenants) {
	t.Helper()
	const quiet = 20
	s, boot, known := startTenants(t, n, append(env, "GOGC=5")...)
	m.boot, m.known = boot, known
	m.idle = footprintOf(t, s, 5)
	m.first = float64(n) / writeOnce(t, s, n).Seconds()
	awaitWritten(t, s)
	footprintOf(t, s, 10) // what was written last is forgotten meanwhile
	cpu := cpuOf(t, s.PID())
	m.wrote = footprintOf(t, s, quiet)
	m.cpu = float64((cpuOf(t, s.PID()) - cpu).Milliseconds()) / quiet
	s.Kill()
	return m
}

// assets counts the streams and durables of the cluster.
func (s *service) assets(t *testing.T) (assets struct{ Streams, Durables int }) {
	t.Helper()
	js := s.nats.JetStream(t)
	streams := js.ListStreams(t.Context())
	for stream := range streams.Info() {
		assets.Streams++
		of, err := js.Stream(t.Context(), stream.Config.Name)
		require.NoError(t, err)
		consumers := of.ListConsumers(t.Context())
		for consumer := range consumers.Info() {
			if consumer.Config.Durable != "" {
				assets.Durables++
			}
		}
		require.NoError(t, consumers.Err())
	}
	require.NoError(t, streams.Err())
	return assets
}
