package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// TestBytesReadInAnyHour: a query is admitted while something of the hour before is
// left, and what it read counts for an hour.
func TestBytesReadInAnyHour(t *testing.T) {
	l, at := newLimits(Config{ReadBytesPerHour: 1000})
	query := func() *Exceeded {
		_, exceeded := l.Query(birch)
		return exceeded
	}
	l.Read(birch, 400)
	at.Pass(20 * time.Minute)
	require.Nil(t, query())
	l.Read(birch, 5000)
	at.Pass(10 * time.Minute)
	exceeded := query()
	require.NotNil(t, exceeded)
	assert.Equal(t, "query.limits.read_bytes_per_hour", exceeded.Key)
	assert.Equal(t, []any{ReadBytesPerHour, int64(1000), time.Hour}, []any{exceeded.Limit, exceeded.Value, exceeded.Per})
	assert.Greater(t, exceeded.Wait, 49*time.Minute, "until the large one counts no more")
	assert.LessOrEqual(t, exceeded.Wait, 50*time.Minute)
	assert.Nil(t, l.Ingest(birch, 1, 1), "it is no limit of ingest")
	at.Pass(exceeded.Wait)
	assert.Nil(t, query(), "after the wait that was told")

	l.Read(birch, 999)
	assert.Nil(t, query())
	l.Read(birch, 1)
	assert.NotNil(t, query())
	l.Reconcile(map[tenant.ID]Config{birch: {ReadBytesPerHour: 2000}})
	assert.Nil(t, query(), "a larger budget, of which as much is used")
	l.Reconcile(map[tenant.ID]Config{birch: {ReadBytesPerHour: 500}})
	assert.NotNil(t, query())
	l.Reconcile(map[tenant.ID]Config{birch: {QueriesPerSecond: 5}})
	assert.Nil(t, query())
}

func TestAWindowOfAClockThatGoesBack(t *testing.T) {
	l, at := newLimits(Config{ReadBytesPerHour: 10})
	l.Read(birch, 10)
	at.Pass(-3 * time.Hour)
	_, exceeded := l.Query(birch)
	require.NotNil(t, exceeded)
	assert.Equal(t, time.Hour, exceeded.Wait)
	l.Read(birch, 10)
	at.Pass(3 * time.Hour)
	_, exceeded = l.Query(birch)
	require.NotNil(t, exceeded)
	at.Pass(time.Hour)
	_, exceeded = l.Query(birch)
	assert.Nil(t, exceeded)
}

// TestWhatIsUsedOfLimits is what a tenant's limits say of themselves.
func TestWhatIsUsedOfLimits(t *testing.T) {
	l, at := newLimits(Config{RowsPerSecond: 10, Burst: 20, ConcurrentQueries: 2, QueriesPerSecond: 100, ReadBytesPerHour: 1000})
	assert.Empty(t, l.Usage("unheard-of"))
	start := at.Now()
	require.Nil(t, l.Ingest(birch, 30, 1))
	require.NotNil(t, l.Ingest(birch, 1, 1))
	release, _ := l.Query(birch)
	l.Read(birch, 7)
	usage := l.Usage(birch)
	require.Len(t, usage, 4)
	assert.Equal(t, Usage{
		Limit: RowsPerSecond, Key: "ingest.limits.rows_per_second", Value: 10, Per: time.Second, Used: 30, Burst: 20,
		Resets: start.Add(3 * time.Second), Refused: start,
	}, usage[0])
	assert.Equal(t, Usage{Limit: Concurrent, Key: "query.limits.concurrent", Value: 2, Used: 1, Burst: 2}, usage[1])
	assert.Equal(t, int64(1), usage[2].Used)
	assert.Equal(t, Usage{
		Limit: ReadBytesPerHour, Key: "query.limits.read_bytes_per_hour", Value: 1000, Per: time.Hour, Used: 7, Burst: 1000,
		Resets: start.Truncate(time.Minute).Add(time.Hour),
	}, usage[3])
	release()
	at.Pass(time.Hour)
	for _, u := range l.Usage(birch) {
		assert.Zero(t, u.Used, u.Key)
		assert.Zero(t, u.Resets, u.Key)
	}
	assert.Equal(t, start, l.Usage(birch)[0].Refused)
}

func BenchmarkWindow(b *testing.B) {
	w := window{limit: 1 << 60}
	now := time.Unix(1_800_000_000, 0)
	b.ReportAllocs()
	for range b.N {
		now = now.Add(time.Second)
		w.take(100, now)
		if w.wait(now) > 0 {
			b.Fatal("refused")
		}
	}
}
