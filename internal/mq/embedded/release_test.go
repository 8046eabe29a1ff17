package embedded

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

// TestWhatWasRemovedIsNotLost: holes that the broker made itself, behind a
// chunk that is not acknowledged, are no damage after a restart.
func TestWhatWasRemovedIsNotLost(t *testing.T) {
	dir, log := t.TempDir(), &logBook{}
	b := start(t, Options{Dir: dir})
	require.NoError(t, b.SetBudget(t.Context(), "birch", 200<<10))
	in, c := consumeInto(t, b)
	put(t, b, "birch", "stuck")
	in.await(t, 1)
	body := strings.Repeat("x", 10<<10)
	for n := 1; n < 60; n++ {
		if n == 30 {
			put(t, b, "birch", "stuck too")
			in.await(t, n+1)
			continue
		}
		put(t, b, "birch", body)
		require.NoError(t, c.Ack(in.await(t, n+1)[n]))
	}
	require.NoError(t, c.Stop(t.Context()))
	require.NoError(t, b.Close(t.Context()))

	reg := prometheus.NewRegistry()
	b = start(t, Options{Dir: dir, Logger: log.logger(), Registerer: reg})
	in, c = consumeInto(t, b)
	all := in.await(t, 2)
	put(t, b, "birch", "after")
	require.Equal(t, []string{"stuck", "stuck too", "after"}, bodies(in.await(t, 3)))
	require.NotContains(t, log.text(), "lost")
	n, err := testutil.GatherAndCount(reg, "wavehouse_mq_lost_chunks_total")
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, c.Ack(all...))
}

// TestAVolumeThatIsFullGivesUpWhatIsWritten: also behind a chunk that is not.
func TestAVolumeThatIsFullGivesUpWhatIsWritten(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	in, c := consumeInto(t, b)
	for range 20 {
		put(t, b, "birch", "x")
	}
	require.NoError(t, c.Ack(in.await(t, 20)[1:]...))
	q, _ := b.known("birch")
	q.purgeAll(t.Context())
	st, err := b.TenantStatus(t.Context(), "birch")
	require.NoError(t, err)
	require.EqualValues(t, 1, st.Chunks)
	require.EqualValues(t, 1, st.Pending)
}

// TestWhatWaitsIsCountedOnce: what waits of a table is counted once,
// however it became known.
func TestWhatWaitsIsCountedOnce(t *testing.T) {
	var w waiting
	w.reset(5)
	chunk := mqtest.Chunk("birch", "t", "x")
	size := storedSize(&chunk)
	w.arrived(5, &chunk) // counted when it is delivered
	require.Zero(t, w.total)
	w.delivered(5, &chunk)
	w.arrived(6, &chunk)
	w.delivered(6, &chunk) // counted when it arrived
	require.Equal(t, 2*size, w.total)
	require.NoError(t, w.full(&chunk, 100*size))
	require.ErrorIs(t, w.full(&chunk, 2*size), mq.ErrFull)
	w.add("t", -5*size)
	require.Zero(t, w.total, "never less than nothing")
	require.Empty(t, w.tables)
	require.NoError(t, w.full(&chunk, 1), "a table has room for one chunk, if the queue has")
}
