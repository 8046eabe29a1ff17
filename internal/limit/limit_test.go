package limit

import (
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clocktest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const birch, cedar tenant.ID = "birch", "cedar"

func newLimits(c Config) (*Limits, *clocktest.Clock) {
	at := clocktest.At(time.Unix(1_700_000_000, 0))
	l := New(Options{Now: at.Now})
	l.Reconcile(map[tenant.ID]Config{birch: c})
	return l, at
}

func TestNoLimitsUnlessSet(t *testing.T) {
	l, _ := newLimits(Config{})
	assert.Empty(t, *l.tenants.Load(), "a tenant without a limit costs nothing")
	for range 1000 {
		assert.Nil(t, l.Ingest(birch, 1_000_000, 1<<40))
		assert.Nil(t, l.Ingest("unheard-of", 1, 1))
		release, exceeded := l.Query(birch)
		assert.Nil(t, exceeded)
		release()
	}
}

func TestRowsPerSecond(t *testing.T) {
	l, at := newLimits(Config{RowsPerSecond: 10})
	for range 10 {
		require.Nil(t, l.Ingest(birch, 1, 100), "one second's worth at once")
	}
	assert.Equal(t, &Exceeded{Limit: "rows_per_second", Key: "ingest.limits.rows_per_second", Value: 10, Per: time.Second, Wait: 100 * time.Millisecond}, l.Ingest(birch, 1, 1))
	assert.ErrorContains(t, l.Ingest(birch, 1, 1), "ingest.limits.rows_per_second (10)")
	assert.Nil(t, l.Ingest(cedar, 1, 1), "another tenant's business")
	at.Pass(99 * time.Millisecond)
	assert.NotNil(t, l.Ingest(birch, 1, 1))
	at.Pass(time.Millisecond)
	assert.Nil(t, l.Ingest(birch, 1, 1), "after the wait that was told")
	at.Pass(time.Hour)
	for range 10 {
		require.Nil(t, l.Ingest(birch, 1, 100))
	}
	assert.NotNil(t, l.Ingest(birch, 1, 1), "no more than the burst is saved up")
}

func TestBurst(t *testing.T) {
	l, at := newLimits(Config{RowsPerSecond: 10, BytesPerSecond: 1000, Burst: 30})
	for range 30 {
		require.Nil(t, l.Ingest(birch, 1, 100), "bytes for as long a time as rows")
	}
	exceeded := l.Ingest(birch, 1, 100)
	require.NotNil(t, exceeded)
	assert.Equal(t, RowsPerSecond, exceeded.Limit)
	at.Pass(time.Hour)
	require.Nil(t, l.Ingest(birch, 1, 5000))
	exceeded = l.Ingest(birch, 1, 1)
	require.NotNil(t, exceeded)
	assert.Equal(t, "ingest.limits.bytes_per_second", exceeded.Key)
	assert.Equal(t, int64(1000), exceeded.Value)
	assert.InDelta(t, 2.001, exceeded.Wait.Seconds(), 1e-6)
}

// TestARequestLargerThanTheBurst is admitted, and paid off before the next.
func TestARequestLargerThanTheBurst(t *testing.T) {
	l, at := newLimits(Config{RowsPerSecond: 10, Burst: 5})
	assert.Nil(t, l.Ingest(birch, 1005, 0))
	exceeded := l.Ingest(birch, 0, 0)
	require.NotNil(t, exceeded, "asked before the body is read")
	assert.Equal(t, 100*time.Second+100*time.Millisecond, exceeded.Wait)
	at.Pass(exceeded.Wait)
	assert.Nil(t, l.Ingest(birch, 0, 0))
	assert.Nil(t, l.Ingest(birch, 0, 0), "which takes nothing")
	assert.Nil(t, l.Ingest(birch, 1<<40, 1<<50))
	assert.Equal(t, longestWait, l.Ingest(birch, 1, 1).Wait)
}

// TestTheAverageHolds sends requests of any size whenever it is allowed.
func TestTheAverageHolds(t *testing.T) {
	l, at := newLimits(Config{RowsPerSecond: 1000})
	start, rows := at.Now(), 0
	for i := range 500 {
		n := 1 + i*7919%5000
		for {
			exceeded := l.Ingest(birch, n, 0)
			if exceeded == nil {
				break
			}
			at.Pass(exceeded.Wait)
		}
		rows += n
	}
	seconds := at.Now().Sub(start).Seconds()
	assert.InDelta(t, 1000, float64(rows)/seconds, 20)
}

func TestQueriesPerSecond(t *testing.T) {
	l, at := newLimits(Config{QueriesPerSecond: 2})
	for range 2 {
		_, exceeded := l.Query(birch)
		require.Nil(t, exceeded, "one that goes on is no matter")
	}
	release, exceeded := l.Query(birch)
	assert.Nil(t, release)
	assert.Equal(t, &Exceeded{Limit: "per_second", Key: "query.limits.per_second", Value: 2, Per: time.Second, Wait: 500 * time.Millisecond}, exceeded)
	at.Pass(exceeded.Wait)
	_, exceeded = l.Query(birch)
	assert.Nil(t, exceeded)
}

func TestConcurrentQueries(t *testing.T) {
	l, _ := newLimits(Config{ConcurrentQueries: 2})
	first, exceeded := l.Query(birch)
	require.Nil(t, exceeded)
	second, exceeded := l.Query(birch)
	require.Nil(t, exceeded)
	_, exceeded = l.Query(birch)
	assert.Equal(t, &Exceeded{Limit: "concurrent", Key: "query.limits.concurrent", Value: 2, Wait: time.Second}, exceeded)
	first()
	first() // once counts
	third, exceeded := l.Query(birch)
	require.Nil(t, exceeded)
	_, exceeded = l.Query(birch)
	assert.NotNil(t, exceeded)

	l.Reconcile(map[tenant.ID]Config{birch: {ConcurrentQueries: 1}})
	second()
	_, exceeded = l.Query(birch)
	assert.NotNil(t, exceeded, "those that run are not forgotten")
	third()
	_, exceeded = l.Query(birch)
	assert.Nil(t, exceeded)
}

// TestReconcileKeepsWhatWasUsed: an adoption forgives nothing and takes nothing.
func TestReconcileKeepsWhatWasUsed(t *testing.T) {
	l, at := newLimits(Config{RowsPerSecond: 10})
	require.Nil(t, l.Ingest(birch, 110, 0)) // 100 rows of debt
	l.Reconcile(map[tenant.ID]Config{birch: {RowsPerSecond: 10}, cedar: {RowsPerSecond: 1}})
	assert.Equal(t, 10*time.Second+100*time.Millisecond, l.Ingest(birch, 1, 0).Wait)
	l.Reconcile(map[tenant.ID]Config{birch: {RowsPerSecond: 100, QueriesPerSecond: 1}})
	assert.Equal(t, time.Second+10*time.Millisecond, l.Ingest(birch, 1, 0).Wait, "the debt is rows, not time")
	_, exceeded := l.Query(birch)
	assert.Nil(t, exceeded, "a new limit begins unused")
	at.Pass(time.Hour)
	l.Reconcile(map[tenant.ID]Config{birch: {RowsPerSecond: 2}})
	require.Nil(t, l.Ingest(birch, 2, 0))
	assert.NotNil(t, l.Ingest(birch, 1, 0), "what was saved up is cut to the new burst")
	l.Reconcile(nil)
	assert.Nil(t, l.Ingest(birch, 1, 0))
	assert.Empty(t, *l.tenants.Load())
}

func TestAClockThatGoesBack(t *testing.T) {
	l, at := newLimits(Config{RowsPerSecond: 1})
	require.Nil(t, l.Ingest(birch, 1, 0))
	at.Pass(-time.Hour)
	assert.NotNil(t, l.Ingest(birch, 1, 0))
	at.Pass(time.Hour + time.Second)
	assert.Nil(t, l.Ingest(birch, 1, 0))

	l, at = newLimits(Config{RowsPerSecond: 10})
	require.Nil(t, l.Ingest(birch, 1, 0))
	at.Pass(-time.Hour)
	assert.Nil(t, l.Ingest(birch, 1, 0), "what there is stays")
}

func TestRefusalsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	l := New(Options{Metrics: registry})
	l.Reconcile(map[tenant.ID]Config{birch: {ConcurrentQueries: 1}})
	for range 3 {
		_, _ = l.Query(birch)
	}
	assert.InDelta(t, 2, testutil.ToFloat64(l.refused.WithLabelValues("birch", "concurrent")), 0)
	l.Reconcile(nil)
	assert.Zero(t, testutil.CollectAndCount(l.refused), "nothing stays of a tenant that is gone")
}

// TestConcurrentUse: what is admitted at once never exceeds the limit, while
// adoptions go on.
func TestConcurrentUse(t *testing.T) {
	l, _ := newLimits(Config{RowsPerSecond: 500, ConcurrentQueries: 4})
	var users sync.WaitGroup
	var mu sync.Mutex
	admitted, running, peak := 0, 0, 0
	change := func(rows, queries int) {
		mu.Lock()
		defer mu.Unlock()
		admitted += rows
		running += queries
		peak = max(peak, running)
	}
	for range 8 {
		users.Go(func() {
			for range 200 {
				if l.Ingest(birch, 1, 1) == nil {
					change(1, 0)
				}
				if release, exceeded := l.Query(birch); exceeded == nil {
					change(0, 1)
					change(0, -1)
					release()
				}
				l.Reconcile(map[tenant.ID]Config{birch: {RowsPerSecond: 500, ConcurrentQueries: 4}})
			}
		})
	}
	users.Wait()
	assert.Equal(t, 500, admitted)
	assert.LessOrEqual(t, peak, 4)
}

func BenchmarkIngest(b *testing.B) {
	l := New(Options{})
	l.Reconcile(map[tenant.ID]Config{birch: {RowsPerSecond: 1 << 40, BytesPerSecond: 1 << 50}})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if l.Ingest(birch, 1, 100) != nil {
				b.Error("refused")
			}
		}
	})
}
