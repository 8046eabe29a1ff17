package nats

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

func TestAHistoryIsBehindForAsLongAsItLacksSomething(t *testing.T) {
	t.Parallel()
	var m mark
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	require.Zero(t, m.behind(5, 5, at(0)))
	require.Zero(t, m.behind(10, 6, at(1)), "from now on")
	require.Equal(t, 4*time.Second, m.behind(20, 7, at(5)))
	require.Zero(t, m.behind(30, 12, at(6)), "what it lacked is there, and there is more")
	require.Equal(t, 2*time.Second, m.behind(30, 20, at(8)))
	require.Zero(t, m.behind(30, 30, at(9)))
}

func TestMetricsTellHowTheClusterStands(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	o := made(t, c.JetStream(t), c, 15*time.Second, 1)
	reg := prometheus.NewRegistry()
	o.Registerer = reg
	b := open(t, o)
	worker := newLedger().worker(t, b)
	_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", "row"))
	require.NoError(t, err)
	value := func(name string) float64 {
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "wavehouse_mq_"+name {
				m := f.GetMetric()[0]
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return -1
	}
	for name, want := range map[string]float64{
		"connected": 1, "topology_ok": 1, "history_behind_seconds": 0, "shards_owned": 6, "members": 1, "shards_unowned": 0,
		"shards_uncovered": 0, "handovers_total": 0, "publishes_total": 1,
	} {
		require.Eventually(t, func() bool { return value(name) == want }, time.Minute, 20*time.Millisecond, "%s is %v", name, want)
	}
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, b.Full())
	require.NoError(t, worker.Stop(t.Context()))
	c.Nodes[0].Kill()
	require.Eventually(t, func() bool { return value("connected") == 0 }, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool { return errors.Is(b.Full(), mq.ErrUnavailable) }, time.Minute, 20*time.Millisecond,
		"the gauge speaks of both connections, and each is told of the end on its own")
	_, err = b.Publish(t.Context(), mqtest.Chunk("birch", "t", "row"))
	require.ErrorIs(t, err, mq.ErrUnavailable)
	c.Nodes[0].Start(t)
	require.Eventually(t, func() bool { return value("connected") == 1 }, time.Minute, 20*time.Millisecond)
}
