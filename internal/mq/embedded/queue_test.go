package embedded

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// TestFullQueueIsOneTenantsTroubleOnly: nobody writes birch's chunks
// until it is refused; then they all come, and it recovers.
func TestFullQueueIsOneTenantsTroubleOnly(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	require.NoError(t, b.SetBudget(t.Context(), "birch", 100<<10))
	var want []string
	for {
		body := fmt.Sprint("b", len(want), strings.Repeat(".", 5<<10))
		_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", body))
		put(t, b, "cedar", "fine")
		if err != nil {
			require.ErrorIs(t, err, mq.ErrFull)
			break
		}
		want = append(want, body)
	}
	in := &box[mq.Delivery]{}
	var c mq.Consumption
	ready := make(chan struct{})
	c, err := b.Consume(context.Background(), mqtest.Work(func(d mq.Delivery) {
		<-ready
		require.NoError(t, c.Ack(d))
		if d.Chunk().Tenant == "birch" {
			in.add(d)
		}
	}))
	require.NoError(t, err)
	close(ready)
	require.Eventually(t, func() bool {
		_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", "recovered"))
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, append(want, "recovered"), bodies(in.await(t, len(want)+1)))
	require.NoError(t, c.Stop(t.Context()))
}

func TestShrinkingTheBudgetOverWaitingDeadLetters(t *testing.T) {
	dir, log := t.TempDir(), &logBook{}
	b := start(t, Options{Dir: dir, Logger: log.logger()})
	put(t, b, "birch", "chunk")
	for n := range 100 {
		require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "pages", fmt.Sprint(n))))
	}
	require.ErrorIs(t, b.SetBudget(t.Context(), "birch", 50<<10), mq.ErrBudgetNotApplied)
	require.Contains(t, log.text(), "queue budget is not applied")
	require.NoError(t, b.Close(t.Context()))
	b = start(t, Options{Dir: dir})
	letters, err := b.DeadLetters("birch")
	require.NoError(t, err)
	counts, err := letters.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"pages": 100}, counts)
	page, err := letters.List(t.Context(), "pages", 1000, "")
	require.NoError(t, err)
	require.Len(t, page.Letters, 100)
}

// TestInsertSlowerThanTheAcknowledgementWait: the worker extends while
// it works.
func TestInsertSlowerThanTheAcknowledgementWait(t *testing.T) {
	const wait = 3 * time.Second
	b := start(t, Options{Dir: t.TempDir(), AckWait: wait})
	var calls atomic.Int32
	var c mq.Consumption
	ready, done := make(chan struct{}), make(chan struct{})
	c, err := b.Consume(context.Background(), mqtest.Work(func(d mq.Delivery) {
		<-ready
		calls.Add(1)
		for end := time.Now().Add(wait + time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			require.NoError(t, d.Extend())
		}
		require.NoError(t, c.Ack(d))
		require.Error(t, d.Extend(), "after the end")
		require.NoError(t, d.Nak(0), "after the end")
		close(done)
	}))
	require.NoError(t, err)
	close(ready)
	put(t, b, "birch", "slow")
	<-done
	require.NoError(t, c.Stop(t.Context()))
	require.EqualValues(t, 1, calls.Load())
	require.Zero(t, statusOf(t, b, "birch").Pending)
}

func TestMessageThatCannotBeReadAtAll(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	put(t, b, "birch", "first")
	putRaw(t, b, mq.Topic{Tenant: "birch", Table: "t"}, []byte("{garbage"))
	for n := range 10 {
		put(t, b, "birch", fmt.Sprint("good ", n))
	}
	in, c := consumeInto(t, b)
	got := in.await(t, 12)
	require.Empty(t, got[1].Chunk().Version)
	require.Equal(t, "{garbage", string(got[1].Chunk().Body))
	require.NoError(t, c.Ack(got...))
	require.Zero(t, statusOf(t, b, "birch").Pending)
}

func TestTenantThatNeverWroteCostsNothing(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	consumeInto(t, b)
	for n := range 50 {
		require.NoError(t, b.SetBudget(t.Context(), tenant.ID(fmt.Sprint("t", n)), 1<<30))
	}
	infos, err := b.host.listStreams(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos)
	put(t, b, "t7", "first")
	require.EqualValues(t, 1<<30, statusOf(t, b, "t7").Budget, "remembered")
	infos, err = b.host.listStreams(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
}

func TestManyTenantsAtStart(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	for n := range 150 {
		put(t, b, tenant.ID(fmt.Sprint("t", n)), "x")
	}
	require.NoError(t, b.Close(t.Context()))
	b = start(t, Options{Dir: dir})
	in, _ := consumeInto(t, b)
	require.Len(t, in.await(t, 150), 150)
	ids, err := b.Tenants(t.Context(), "", 1000)
	require.NoError(t, err)
	require.Len(t, ids, 150)
}

func TestLettersOverTheirShareDropTheOldest(t *testing.T) {
	log := &logBook{}
	b := start(t, Options{Dir: t.TempDir(), Logger: log.logger(), DefaultBudget: 200 << 10})
	for n := range 100 {
		require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "t", fmt.Sprint(n, strings.Repeat(".", 500)))))
	}
	kept := statusOf(t, b, "birch").DeadLetters
	require.Less(t, kept, uint64(100))
	dropped := testutil.ToFloat64(b.metrics.dropped.WithLabelValues("birch"))
	require.EqualValues(t, 100, float64(kept)+dropped)
	require.Contains(t, log.text(), "the oldest are dropped")
	err := b.Park(t.Context(), mqtest.Letter("birch", "t", strings.Repeat(".", 30<<10)))
	require.ErrorIs(t, err, mq.ErrFull, "a letter over the whole share would vanish")
	require.EqualValues(t, kept, statusOf(t, b, "birch").DeadLetters)
}

func TestMetrics(t *testing.T) {
	reg, dir := prometheus.NewRegistry(), t.TempDir()
	b := start(t, Options{Dir: dir, Registerer: reg, DefaultBudget: 1 << 20})
	_, err := New(Options{Dir: t.TempDir(), Registerer: reg, Logger: quiet()})
	require.Error(t, err, "registered twice")
	in, c := consumeInto(t, b)
	put(t, b, "birch", "one")
	put(t, b, "birch", "two")
	require.NoError(t, c.Ack(in.await(t, 2)[0]))
	require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "t", "row")))
	big := mqtest.Chunk("birch", "t", string(make([]byte, mq.MaxChunkBytes)))
	_, err = b.Publish(t.Context(), big)
	require.ErrorIs(t, err, mq.ErrTooLarge)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP wavehouse_mq_budget_bytes The queue's budget.
# TYPE wavehouse_mq_budget_bytes gauge
wavehouse_mq_budget_bytes{tenant="birch"} 1.048576e+06
# HELP wavehouse_mq_dead_letters Dead letters kept.
# TYPE wavehouse_mq_dead_letters gauge
wavehouse_mq_dead_letters{tenant="birch"} 1
# HELP wavehouse_mq_depth_chunks Chunks kept in the queue, history included.
# TYPE wavehouse_mq_depth_chunks gauge
wavehouse_mq_depth_chunks{tenant="birch"} 2
# HELP wavehouse_mq_pending_chunks Chunks not yet acknowledged by the worker.
# TYPE wavehouse_mq_pending_chunks gauge
wavehouse_mq_pending_chunks{tenant="birch"} 1
# HELP wavehouse_mq_publishes_total Chunks published, by result.
# TYPE wavehouse_mq_publishes_total counter
wavehouse_mq_publishes_total{result="ok"} 2
wavehouse_mq_publishes_total{result="too_large"} 1
`), "wavehouse_mq_budget_bytes", "wavehouse_mq_dead_letters", "wavehouse_mq_depth_chunks", "wavehouse_mq_pending_chunks", "wavehouse_mq_publishes_total"))
	require.NoError(t, b.Close(t.Context()))
	start(t, Options{Dir: dir, Registerer: reg})
}

func TestATenantThatNeverWroteHasABudgetAndNoQueue(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir(), DefaultBudget: 1 << 20})
	for _, bytes := range []int64{2 << 20, 1 << 20, 3 << 20} {
		require.NoError(t, b.SetBudget(t.Context(), "birch", bytes))
		require.Equal(t, mq.TenantStatus{Budget: bytes}, statusOf(t, b, "birch"))
		require.Empty(t, b.all())
	}
	put(t, b, "birch", "one")
	require.EqualValues(t, 3<<20, statusOf(t, b, "birch").Budget)
	info, err := b.host.js.Stream(t.Context(), ingestStream("birch"))
	require.NoError(t, err)
	require.EqualValues(t, 3<<20, info.CachedInfo().Config.MaxBytes)
}

// TestNothingIsLeftBehind looks for goroutines of the broker and its server.
func TestNothingIsLeftBehind(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	in, c := consumeInto(t, b)
	_, err := b.Feed(t.Context(), mqtest.Viewing(func(mq.Chunk, mq.Position) {}))
	require.NoError(t, err)
	for n := range 20 {
		put(t, b, tenant.ID(fmt.Sprint("t", n%4)), "x")
	}
	require.NoError(t, c.Ack(in.await(t, 20)...))
	require.NoError(t, b.Close(t.Context()))
	var stacks strings.Builder
	left := func() bool {
		stacks.Reset()
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		text := stacks.String()
		return strings.Contains(text, "mq/embedded.(*") || strings.Contains(text, "nats-server") || strings.Contains(text, "nats.go.(*Conn)")
	}
	for end := time.Now().Add(30 * time.Second); left() && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	require.False(t, left(), stacks.String())
}

// A probe, and a sweep of tenants that keep nothing, ask the store nothing, however
// many tenants there are.
func TestProbesAndSweepsOfQuietTenantsAskTheStoreNothing(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	in, c := consumeInto(t, b)
	cutoffs := map[tenant.ID]time.Time{}
	for n := range 20 {
		id := tenant.ID(fmt.Sprint("t", n))
		put(t, b, id, "x")
		cutoffs[id] = time.Now().Add(time.Hour)
	}
	require.NoError(t, c.Ack(in.await(t, 20)...))
	require.NoError(t, c.Stop(t.Context()))
	_, err := b.Purge(t.Context(), cutoffs)
	require.NoError(t, err)
	asked := func() uint64 { return b.host.pub.Stats().OutMsgs + b.host.api.Stats().OutMsgs }
	before := asked()
	for range 10 {
		require.NoError(t, b.Full())
		require.Empty(t, b.Unavailable())
		require.Empty(t, b.Damages())
		ids, err := b.Tenants(t.Context(), "", 1000)
		require.NoError(t, err)
		require.Len(t, ids, 20)
		purged, err := b.Purge(t.Context(), cutoffs)
		require.NoError(t, err)
		require.Empty(t, purged)
	}
	require.Equal(t, before, asked())
}
