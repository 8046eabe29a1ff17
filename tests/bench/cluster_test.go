package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// TestClusterBenchmarks is ingest with the queue on a NATS cluster.
func TestClusterBenchmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take minutes")
	}
	embedded := newBed(t)
	report(t, "cluster", append(throughOneServer(t, embedded), throughThree(t, embedded)...))
}

// onNATS is the bed with another server, whose queue is on a cluster.
func (b *bed) onNATS(t *testing.T, nodes int) (*bed, *natstest.Cluster) {
	t.Helper()
	c := natstest.Start(t, natstest.Options{Nodes: nodes})
	plan := topology.Default()
	plan.Replicas, plan.FileStore = nodes, 8<<30
	require.NoError(t, topology.Apply(t.Context(), c.JetStream(t), topology.Of(plan)))
	on := *b
	on.server = harness.StartServer(t, harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: b.clickhouse, Config: map[string]string{"stream": `{"gap_window_minutes":0}`}, Env: []string{
			"WH_MQ_BACKEND=nats", "WH_MQ_NATS_URLS=" + strings.Join(c.URLs(), ","), "WH_COORD_BACKEND=nats",
			"WH_STREAM_ID_KEY=0123456789abcdef0123456789abcdef", "WH_DEDUPE_PEBBLE_SINGLE_REPLICA=true",
		},
	})
	on.server.AwaitReady(t)
	on.tables = nodes * 1000 // of other names
	return &on, c
}

func throughOneServer(t *testing.T, embedded *bed) []line {
	t.Helper()
	on, _ := embedded.onNATS(t, 1)
	p := plan{clients: 4, rowsPerBody: 1000, during: *duration}
	bodies := makeBodies(p, 20)
	var ours, theirs, ratios []float64
	for range *rounds {
		us, beside := on.measure(t, p, bodies, on.gateway), embedded.measure(t, p, bodies, embedded.gateway)
		ours, theirs = append(ours, us.rowsPerSecond), append(theirs, beside.rowsPerSecond)
		ratios = append(ratios, us.rowsPerSecond/beside.rowsPerSecond)
	}
	on.server.Kill()
	return []line{{"1,000-row bodies, 4 clients, one replica, visible rows/s",
		fmt.Sprintf("%.0f", median(ours)), fmt.Sprintf("%.0f embedded", median(theirs)), fmt.Sprintf("%.2f", median(ratios))}}
}

func throughThree(t *testing.T, embedded *bed) []line {
	t.Helper()
	on, c := embedded.onNATS(t, 3)
	js := c.JetStream(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.>"}, Replicas: 3})
	require.NoError(t, err)
	lines := singleRows(t, on, js, "single-row requests, 64 clients, three replicas, accepted rows/s")
	for _, node := range c.Nodes {
		if err := slowDisk(t, node.PID(), node.Dir, diskWrites); err != nil {
			t.Logf("not measured with slow disks: %v", err)
			return lines
		}
	}
	return append(lines, singleRows(t, on, js, fmt.Sprintf("with disks of %d writes/s under the servers", diskWrites))...)
}

// diskWrites is what a general volume of a cloud does in a second.
const diskWrites = 3000

// singleRows is what 64 clients are answered who send a row at a time, beside as many
// who publish each row, and beside one who does and waits for each answer.
func singleRows(t *testing.T, on *bed, js jetstream.JetStream, what string) []line {
	t.Helper()
	p := plan{clients: 64, rowsPerBody: 1, during: *duration}
	inTurn := plan{clients: 1, rowsPerBody: 1, during: *duration}
	bodies := makeBodies(p, 20)
	var ours, bare, ratios, one, oneRatios []float64
	for range *rounds {
		us, messages, alone := on.measure(t, p, bodies, on.gateway), publishEach(t, js, p, bodies), publishEach(t, js, inTurn, bodies)
		accepted := float64(us.rows) / p.during.Seconds()
		ours, bare, one = append(ours, accepted), append(bare, messages), append(one, alone)
		ratios, oneRatios = append(ratios, accepted/messages), append(oneRatios, accepted/alone)
	}
	rate := fmt.Sprintf("%.0f", median(ours))
	return []line{
		{what, rate, fmt.Sprintf("%.0f one bare publish per row, 64 at once", median(bare)), fmt.Sprintf("%.2f", median(ratios))},
		{"— beside one after the other", rate, fmt.Sprintf("%.0f one bare publish per row, in turn", median(one)), fmt.Sprintf("%.2f", median(oneRatios))},
	}
}
