package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

func TestGateSharesOnePublish(t *testing.T) {
	q := &queue{hold: make(chan struct{})}
	reg := prometheus.NewRegistry()
	g := ingest.NewGate(ingest.GateOptions{Broker: q, Metrics: reg})
	table := ingesttest.Pages()
	first := later(t.Context(), g, ingesttest.Request(table, record.JSON, ingesttest.Line("0")))
	waitFor(t, "the first publish", func() bool { return q.count() == 1 })
	var rest []<-chan outcome
	for i := 1; i < 64; i++ {
		request := ingesttest.Request(table, record.JSON, ingesttest.Line(fmt.Sprint(i)))
		request.Places = true
		rest = append(rest, later(t.Context(), g, request))
	}
	waitFor(t, "all rows to wait", func() bool { return g.Gathered() == 63 })
	assert.GreaterOrEqual(t, waiting(t, reg), float64(64*20))
	assert.Equal(t, 1, q.count(), "one shared publish at a time")
	q.hold <- struct{}{}
	require.NoError(t, (<-first).err)
	q.hold <- struct{}{}
	stored := make(map[string]ingest.Place)
	for i, done := range rest {
		o := <-done
		require.NoError(t, o.err)
		assert.Equal(t, 1, o.result.Succeeded)
		require.Len(t, o.result.Places, 1)
		stored[ingesttest.Line(fmt.Sprint(i+1))] = o.result.Places[0]
	}
	assert.Equal(t, 2, q.count())
	chunks := q.rows(t)
	assert.ElementsMatch(t, ingesttest.Rows(0, 64), flat(chunks))
	for n, row := range chunks[1] {
		assert.Equal(t, mq.NewPosition(1, 2), stored[row].Chunk, "each is told where its row is")
		assert.Equal(t, n, stored[row].Row)
	}
	assert.Zero(t, waiting(t, reg))
}

func waiting(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "wavehouse_ingest_waiting_bytes" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no metric of what waits")
	return 0
}

func TestGateFullChunkLeavesAtOnce(t *testing.T) {
	q := &queue{hold: make(chan struct{})}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	table := ingesttest.Pages()
	done := []<-chan outcome{later(t.Context(), g, ingesttest.Request(table, record.NDJSON, ingesttest.Lines(0, 100)))}
	waitFor(t, "the first publish", func() bool { return q.count() == 1 })
	for i := range 7 { // 900 rows, and 150 that do not fit
		done = append(done, later(t.Context(), g, ingesttest.Request(table, record.NDJSON, ingesttest.Lines(100+150*i, 250+150*i))))
	}
	waitFor(t, "a full chunk to leave while the first is still out", func() bool { return q.count() == 2 })
	close(q.hold)
	for _, d := range done {
		require.NoError(t, (<-d).err)
	}
	stored := flat(q.rows(t))
	want := ingesttest.Rows(0, 1150)
	slices.Sort(stored)
	slices.Sort(want)
	assert.Equal(t, want, stored)
	for _, c := range q.stored {
		assert.LessOrEqual(t, c.Rows, 1000)
	}
	assert.Len(t, q.stored, 3)
}

// Rows that do not fit the chunk being formed send it off and begin the next.
func TestGateSharedChunksStayBelowTheMessageLimit(t *testing.T) {
	q := &queue{hold: make(chan struct{})}
	g := ingest.NewGate(ingest.GateOptions{Broker: q, MaxChunkBytes: 600 << 10})
	table := ingesttest.Pages()
	done := []<-chan outcome{later(t.Context(), g, ingesttest.Request(table, record.JSON, ingesttest.Line("0")))}
	waitFor(t, "the first publish", func() bool { return q.count() == 1 })
	for i := 1; i <= 6; i++ {
		body := fmt.Sprintf(`{"event_id":"%d","page":"%s"}`, i, strings.Repeat("p", 100<<10))
		done = append(done, later(t.Context(), g, ingesttest.Request(table, record.JSON, body)))
	}
	waitFor(t, "two full chunks to leave", func() bool { return q.count() == 3 })
	close(q.hold)
	for _, d := range done {
		require.NoError(t, (<-d).err)
	}
	assert.Len(t, flat(q.rows(t)), 7)
	for _, c := range q.stored {
		assert.LessOrEqual(t, len(c.Body), 300<<10)
	}
}

func TestGateKeepsTablesTenantsAndColumnSetsApart(t *testing.T) {
	q := &queue{hold: make(chan struct{})}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	table := ingesttest.Pages()
	other := ingesttest.Request(table, record.JSON, ingesttest.Line("2"))
	other.Tenant = cedar
	requests := []ingest.Request{
		ingesttest.Request(table, record.JSON, ingesttest.Line("1")), other,
		ingesttest.Request(table, record.JSON, `{"event_id":"3","page":"/","n":1}`),
	}
	var done []<-chan outcome
	for i, r := range requests {
		done = append(done, later(t.Context(), g, r))
		waitFor(t, "a publish of its own", func() bool { return q.count() == i+1 })
	}
	close(q.hold)
	for _, d := range done {
		require.NoError(t, (<-d).err)
	}
	assert.Len(t, q.stored, 3)
}

func TestGateFailedChunkFailsItsRequestsAlone(t *testing.T) {
	for _, c := range []struct {
		cause      error
		code       string
		retryAfter time.Duration
	}{
		{mq.ErrFull, ingest.CodeQueueFull, 30 * time.Second},
		{mq.ErrUnavailable, ingest.CodeQueueDown, 5 * time.Second},
		{mq.ErrClosed, ingest.CodeQueueDown, 5 * time.Second},
		{mq.ErrOutcomeUnknown, ingest.CodeOutcomeUnknown, 5 * time.Second},
		{context.DeadlineExceeded, ingest.CodeOutcomeUnknown, 5 * time.Second},
	} {
		t.Run(c.code, func(t *testing.T) {
			q := &queue{hold: make(chan struct{}), fail: func(n int, _ mq.Chunk) error {
				if n == 2 {
					return fmt.Errorf("stream: %w", c.cause)
				}
				return nil
			}}
			g := ingest.NewGate(ingest.GateOptions{Broker: q})
			table := ingesttest.Pages()
			first := later(t.Context(), g, ingesttest.Request(table, record.JSON, ingesttest.Line("0")))
			waitFor(t, "the first publish", func() bool { return q.count() == 1 })
			bad := []<-chan outcome{
				later(t.Context(), g, ingesttest.Request(table, record.JSON, ingesttest.Line("1"))),
				later(t.Context(), g, ingesttest.Request(table, record.JSON, array(2, 4))),
			}
			waitFor(t, "the others to wait", func() bool { return g.Gathered() == 3 })
			close(q.hold)
			require.NoError(t, (<-first).err)
			for i, d := range bad {
				o := <-d
				var e *ingest.Error
				require.ErrorAs(t, o.err, &e)
				assert.Equal(t, c.code, e.Code)
				assert.Equal(t, c.retryAfter, e.RetryAfter)
				assert.True(t, e.Retryable)
				assert.ErrorIs(t, o.err, c.cause)
				assert.ErrorContains(t, o.err, "stream: ", "the cause is in the text")
				assert.Equal(t, i+1, o.result.Failed)
				assert.Zero(t, o.result.Succeeded)
			}
			_, err := g.Ingest(t.Context(), ingesttest.Request(table, record.JSON, ingesttest.Line("9")))
			require.NoError(t, err, "the lane goes on after a failure")
			assert.Equal(t, []string{ingesttest.Line("0"), ingesttest.Line("9")}, flat(q.rows(t)))
		})
	}
}

func TestGateCallerThatGoesAwayLeavesOthersAlone(t *testing.T) {
	q := &queue{hold: make(chan struct{})}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	table := ingesttest.Pages()
	ctx, cancel := context.WithCancel(t.Context())
	gone := later(ctx, g, ingesttest.Request(table, record.JSON, ingesttest.Line("0")))
	waitFor(t, "the first publish", func() bool { return q.count() == 1 })
	leader := later(ctx, g, ingesttest.Request(table, record.JSON, ingesttest.Line("1")))
	waitFor(t, "the next chunk", func() bool { return g.Gathered() == 1 })
	stays := later(t.Context(), g, ingesttest.Request(table, record.JSON, ingesttest.Line("2")))
	waitFor(t, "a follower", func() bool { return g.Gathered() == 2 })
	cancel()
	close(q.hold)
	require.NoError(t, (<-stays).err)
	<-gone
	<-leader
	assert.ElementsMatch(t, ingesttest.Rows(0, 3), flat(q.rows(t)))
}

func TestGateDoesNotStartForACallerThatIsGone(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Ingest(ctx, ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("0")))
	var e *ingest.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, ingest.CodeCanceled, e.Code)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, q.stored)
}

func TestGateLargeBodyMakesChunksInOrder(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, array(0, 2500)))
	require.NoError(t, err)
	assert.Equal(t, ingest.Result{Total: 2500, Succeeded: 2500}, result)
	var sizes []int
	for _, c := range q.stored {
		sizes = append(sizes, c.Rows)
	}
	assert.Equal(t, []int{1000, 1000, 500}, sizes)
	assert.Equal(t, ingesttest.Rows(0, 2500), flat(q.rows(t)))
}

func TestGateChunksStayBelowTheMessageLimit(t *testing.T) {
	for limit, most := range map[int]int{0: 512 << 10, 1 << 20: 512 << 10, 500 << 10: 250 << 10} {
		q := &queue{}
		g := ingest.NewGate(ingest.GateOptions{Broker: q, MaxChunkBytes: limit})
		var b strings.Builder
		for i := range 20 {
			fmt.Fprintf(&b, `{"event_id":"%d","page":"%s"}`+"\n", i, strings.Repeat("p", 100<<10))
		}
		result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.NDJSON, b.String()))
		require.NoError(t, err)
		assert.Equal(t, 20, result.Succeeded)
		for _, c := range q.stored {
			assert.LessOrEqual(t, len(c.Body), most)
			assert.Greater(t, len(c.Body), most-(100<<10)-1000, "they are filled")
		}
		assert.Len(t, flat(q.rows(t)), 20)
	}
}

func TestGateFailureInTheMiddleKeepsWhatWasAccepted(t *testing.T) {
	q := &queue{fail: func(n int, _ mq.Chunk) error {
		if n > 1 {
			return mq.ErrFull
		}
		return nil
	}}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 30_000)+"5\n"))
	require.ErrorIs(t, err, mq.ErrFull)
	assert.Equal(t, 2, q.count(), "nothing is tried after the queue was full")
	assert.Equal(t, 30_001, result.Total)
	assert.Equal(t, 1000, result.Succeeded)
	assert.Equal(t, 29_001, result.Failed)
	assert.True(t, result.Truncated)
	require.Len(t, result.Results, ingest.MaxResults)
	seen := map[int]bool{}
	for _, r := range result.Results {
		assert.Greater(t, r.Index, 1000)
		assert.False(t, seen[r.Index])
		seen[r.Index] = true
	}
}

func TestGateColumnListThatFitsNoMessage(t *testing.T) {
	q := &queue{fail: func(int, mq.Chunk) error { return mq.ErrTooLarge }}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, "["+ingesttest.Line("1")+"]"))
	require.NoError(t, err, "no retry of the request can help")
	assert.Equal(t, 1, result.Failed)
	require.Len(t, result.Results, 1)
	assert.Equal(t, record.CodeTooLarge, result.Results[0].Code)
}

func TestGateMemoryIsBoundedPerTenant(t *testing.T) {
	q := &queue{hold: make(chan struct{})}
	g := ingest.NewGate(ingest.GateOptions{Broker: q, MaxWaitingPerTenant: 2000, MaxWaiting: 1 << 20})
	table := ingesttest.Pages()
	first := later(t.Context(), g, ingesttest.Request(table, record.NDJSON, ingesttest.Lines(0, 80)))
	waitFor(t, "the first publish", func() bool { return q.count() == 1 })
	_, err := g.Ingest(t.Context(), ingesttest.Request(table, record.NDJSON, ingesttest.Lines(0, 80)))
	require.ErrorIs(t, err, mq.ErrFull)
	var e *ingest.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, ingest.CodeQueueFull, e.Code)
	other := ingesttest.Request(table, record.NDJSON, ingesttest.Lines(0, 80))
	other.Tenant = cedar
	second := later(t.Context(), g, other)
	waitFor(t, "the other tenant's publish", func() bool { return q.count() == 2 })
	close(q.hold)
	require.NoError(t, (<-first).err)
	require.NoError(t, (<-second).err)
	_, err = g.Ingest(t.Context(), ingesttest.Request(table, record.NDJSON, ingesttest.Lines(0, 80)))
	require.NoError(t, err, "room comes back by itself")
}

func TestGateCloseWaitsForThoseInside(t *testing.T) {
	q := &queue{hold: make(chan struct{})}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	table := ingesttest.Pages()
	inside := later(t.Context(), g, ingesttest.Request(table, record.JSON, ingesttest.Line("1")))
	waitFor(t, "the publish", func() bool { return q.count() == 1 })
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, g.Close(brief), context.DeadlineExceeded)
	_, err := g.Ingest(t.Context(), ingesttest.Request(table, record.JSON, ingesttest.Line("2")))
	var e *ingest.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, ingest.CodeQueueDown, e.Code)
	close(q.hold)
	require.NoError(t, g.Close(t.Context()))
	require.NoError(t, (<-inside).err)
	require.NoError(t, g.Close(t.Context()))
}

// Many callers at once: every row is stored exactly once and every answer is
// right, whatever the publishes do.
func TestGateUnderLoad(t *testing.T) {
	q := &queue{fail: func(n int, _ mq.Chunk) error {
		if n%7 == 0 {
			return mq.ErrUnavailable
		}
		return nil
	}}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	table := ingesttest.Pages()
	var mu sync.Mutex
	var accepted []string
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := range 40 {
				from := (w*40 + i) * 1000
				n := []int{1, 3, 300, 1}[i%4]
				result, err := g.Ingest(t.Context(), ingesttest.Request(table, record.NDJSON, ingesttest.Lines(from, from+n)))
				if err == nil {
					assert.Equal(t, n, result.Succeeded)
					mu.Lock()
					accepted = append(accepted, ingesttest.Rows(from, from+n)...)
					mu.Unlock()
					continue
				}
				assert.True(t, errors.Is(err, mq.ErrUnavailable))
				assert.Equal(t, n, result.Failed)
			}
		})
	}
	wg.Wait()
	stored := flat(q.rows(t))
	slices.Sort(accepted)
	slices.Sort(stored)
	assert.True(t, slices.Equal(accepted, stored), "%d rows accepted, %d stored", len(accepted), len(stored))
}
