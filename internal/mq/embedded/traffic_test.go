package embedded

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestWhatTrafficKnows(t *testing.T) {
	var traffic traffic
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	traffic.forget(10)
	note := func(table string, seq uint64, later time.Duration) {
		at = at.Add(later)
		traffic.note(table, seq, at)
	}
	note("a", 11, 0)
	note("b", 13, time.Second)
	note("b", 12, time.Second) // answers overtake each other
	note("b", 20, time.Hour)
	note("a", 21, time.Hour)
	for _, c := range []struct {
		table       string
		from, until uint64
		want        bool
	}{
		{"a", 10, 11, true}, {"none", 10, 11, true}, {"none", 11, 100, false},
		{"a", 11, 12, true}, {"a", 12, 21, false}, {"a", 12, 22, true}, {"a", 22, 100, false},
		{"b", 11, 12, false}, {"b", 11, 13, true}, {"b", 13, 14, true}, {"b", 14, 20, false}, {"b", 14, 21, true},
	} {
		assert.Equal(t, c.want, traffic.among(c.table, c.from, c.until), "%v", c)
	}
	// Many stretches become few, which know less and nothing wrong.
	for seq := uint64(100); seq < 200; seq += 2 {
		note("a", seq, time.Minute)
	}
	assert.Len(t, traffic.tables["a"], maxStretches)
	assert.True(t, traffic.among("a", 101, 102), "one stretch now")
	assert.False(t, traffic.among("a", 197, 198))
	traffic.forget(150)
	assert.NotContains(t, traffic.tables, "b")
	assert.True(t, traffic.among("b", 150, 151))
}

// A reader of a quiet table is told of no gap when other tables' history went, and
// of one when its own did.
func TestReplayTellsOfNoGapInATableOfWhichNothingWent(t *testing.T) {
	var later atomic.Int64
	b := start(t, Options{Dir: t.TempDir(), Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	in, c := consumeInto(t, b)
	published := 0
	publish := func(table string) (mq.Topic, mq.Position) {
		at, err := b.Publish(t.Context(), mqtest.Chunk(tenant.Default, table, "x"))
		require.NoError(t, err)
		published++
		require.NoError(t, c.Ack(in.await(t, published)[published-1]))
		return mq.Topic{Tenant: tenant.Default, Table: table}, at
	}
	busy, before := publish("busy")
	quietTable, own := publish("quiet")
	for range 20 {
		publish("busy")
	}
	_, err := b.Purge(t.Context(), map[tenant.ID]time.Time{tenant.Default: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	later.Store(int64(time.Hour))
	_, next := publish("quiet")
	_, tail := publish("busy")

	var got []mq.Position
	take := func(_ mq.Chunk, p mq.Position) error { got = append(got, p); return nil }
	require.NoError(t, b.Replay(t.Context(), quietTable, own, tail, take))
	assert.Equal(t, []mq.Position{next}, got)
	var gap *mq.ReplayGap
	assert.ErrorAs(t, b.Replay(t.Context(), quietTable, before, tail, take), &gap, "its own chunk went")
	assert.ErrorAs(t, b.Replay(t.Context(), busy, before, tail, take), &gap)
}
