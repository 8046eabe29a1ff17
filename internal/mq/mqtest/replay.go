package mqtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func replayCases() []testCase {
	purges := func(c Capabilities) bool { return c.Purges }
	return []testCase{
		{name: "replay/bounds and topic", needs: anyBroker, run: replayBounds},
		{name: "replay/to a slow reader", needs: anyBroker, run: replaySlow},
		{name: "replay/reader's error ends it", needs: anyBroker, run: replayError},
		{name: "replay/position of another epoch", needs: anyBroker, run: replayEpoch},
		{name: "replay/tail and position at a time", needs: anyBroker, run: positions},
		{name: "replay/over a purged start", needs: purges, run: replayPurged},
		{name: "purge/only what is acknowledged and old", needs: purges, run: purgeAcked},
	}
}

func history(t *testing.T, b mq.Broker, topic mq.Topic, from, until mq.Position) []string {
	t.Helper()
	var out []string
	last := from
	err := b.Replay(t.Context(), topic, from, until, func(c mq.Chunk, pos mq.Position) error {
		require.Equal(t, topic, c.Topic)
		require.True(t, last.Before(pos))
		last = pos
		out = append(out, string(c.Body))
		return nil
	})
	require.NoError(t, err)
	return out
}

func replayBounds(t *testing.T, s Store) {
	b := open(t, s)
	topic := mq.Topic{Tenant: "birch", Table: "a"}
	require.Empty(t, history(t, b, topic, mq.Position{}, mq.Position{}))
	var at []mq.Position
	for n := range 10 {
		at = append(at, publishMany(t, b, "birch", "a", n+1)[n])
		publishMany(t, b, "birch", "a.b", 1)
	}
	tail, err := b.Tail(t.Context(), "birch")
	require.NoError(t, err)
	require.Len(t, history(t, b, topic, mq.Position{}, tail), 55)
	require.Len(t, history(t, b, mq.Topic{Tenant: "birch", Table: "a.b"}, mq.Position{}, tail), 10)
	require.Equal(t, numbered("birch", "a", 0, 10), history(t, b, topic, at[8], at[9]))
	require.Empty(t, history(t, b, topic, at[9], at[9]))
	require.Empty(t, history(t, b, topic, at[9], tail))
	require.Empty(t, history(t, b, topic, at[9], at[3]), "until before from")
	require.Empty(t, history(t, b, mq.Topic{Tenant: "birch", Table: "none"}, mq.Position{}, tail))
	require.Empty(t, history(t, b, mq.Topic{Tenant: "cedar", Table: "a"}, mq.Position{}, mq.Position{}))
	b = reopen(t, s, b)
	require.Equal(t, numbered("birch", "a", 0, 10), history(t, b, topic, at[8], at[9]), "after a restart")
}

func replaySlow(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 700)
	until, err := b.Tail(t.Context(), "birch")
	require.NoError(t, err)
	var got []string
	err = b.Replay(t.Context(), mq.Topic{Tenant: "birch", Table: "t"}, mq.Position{}, until, func(c mq.Chunk, _ mq.Position) error {
		if len(got)%100 == 0 { // published while the reader is busy, and after until
			publish(t, b, Chunk("birch", "t", "later"))
		}
		got = append(got, string(c.Body))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, numbered("birch", "t", 0, 700), got)
}

func replayError(t *testing.T, s Store) {
	b := open(t, s)
	tail := publishMany(t, b, "birch", "t", 3)[2]
	topic, sentinel := mq.Topic{Tenant: "birch", Table: "t"}, errors.New("enough")
	calls := 0
	err := b.Replay(t.Context(), topic, mq.Position{}, tail, func(mq.Chunk, mq.Position) error { calls++; return sentinel })
	require.ErrorIs(t, err, sentinel)
	require.Equal(t, 1, calls)
	ctx, cancel := context.WithCancel(t.Context())
	err = b.Replay(ctx, topic, mq.Position{}, tail, func(mq.Chunk, mq.Position) error { calls++; cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, calls)
}

func requireGap(t *testing.T, err error, reason string) mq.Position {
	t.Helper()
	var gap *mq.ReplayGap
	require.ErrorAs(t, err, &gap)
	require.Equal(t, reason, gap.Reason)
	return gap.First
}

func never(mq.Chunk, mq.Position) error { return errors.New("must not be called") }

func replayEpoch(t *testing.T, s Store) {
	b := open(t, s)
	at := publishMany(t, b, "birch", "t", 3)
	epoch, _ := mq.SplitPosition(at[0])
	foreign := mq.NewPosition(epoch+1, 1)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	require.Equal(t, at[0], requireGap(t, b.Replay(t.Context(), topic, foreign, at[2], never), "reset"))
	requireGap(t, b.Replay(t.Context(), mq.Topic{Tenant: "cedar", Table: "t"}, foreign, foreign, never), "reset")
}

func positions(t *testing.T, s Store) {
	b := open(t, s)
	tail, err := b.Tail(t.Context(), "birch")
	require.NoError(t, err)
	require.True(t, tail.IsZero())
	at, err := b.PositionAt(t.Context(), "birch", time.Now())
	require.NoError(t, err)
	require.True(t, at.IsZero())
	before := time.Now()
	old := publishMany(t, b, "birch", "t", 3)
	time.Sleep(2 * time.Millisecond) // the stored times differ
	between := time.Now()
	fresh := publishMany(t, b, "birch", "t", 2)
	tail, err = b.Tail(t.Context(), "birch")
	require.NoError(t, err)
	require.Equal(t, fresh[1], tail)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	for moment, want := range map[time.Time]int{before: 5, between: 2, time.Now().Add(time.Hour): 0} {
		at, err := b.PositionAt(t.Context(), "birch", moment)
		require.NoError(t, err)
		require.Len(t, history(t, b, topic, at, tail), want)
	}
	at, err = b.PositionAt(t.Context(), "birch", between)
	require.NoError(t, err)
	require.Equal(t, old[2], at)
}

func purgeOf(t *testing.T, b mq.Broker, id tenant.ID, before time.Time) uint64 {
	t.Helper()
	report, err := b.Purge(t.Context(), map[tenant.ID]time.Time{id: before, "nobody": before})
	require.NoError(t, err)
	require.NotContains(t, report.Chunks, tenant.ID("nobody"))
	return report.Chunks[id]
}

func replayPurged(t *testing.T, s Store) {
	b := open(t, s)
	in, c := consume(t, b)
	at := publishMany(t, b, "birch", "t", 10)
	require.NoError(t, c.Ack(in.await(t, 10)[:6]...))
	require.EqualValues(t, 6, purgeOf(t, b, "birch", time.Now().Add(time.Hour)))
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	for _, from := range []mq.Position{{}, at[0], at[4]} {
		first := requireGap(t, b.Replay(t.Context(), topic, from, at[9], never), "retention")
		require.Equal(t, at[6], first)
		require.Equal(t, numbered("birch", "t", 6, 10), history(t, b, topic, first.Prev(), at[9]))
	}
	require.Equal(t, numbered("birch", "t", 6, 10), history(t, b, topic, at[5], at[9]))
	require.NoError(t, c.Ack(in.list()[6:]...))
	require.EqualValues(t, 4, purgeOf(t, b, "birch", time.Now().Add(time.Hour)))
	first := requireGap(t, b.Replay(t.Context(), topic, at[7], at[9], never), "retention")
	require.True(t, first.IsZero(), "nothing is kept")
	require.Empty(t, history(t, b, topic, at[9], at[9]))
	b = reopen(t, s, b)
	tail, err := b.Tail(t.Context(), "birch")
	require.NoError(t, err)
	require.Equal(t, at[9], tail, "an empty queue remembers where it was")
	require.True(t, at[9].Before(publishMany(t, b, "birch", "t", 1)[0]))
}

func purgeAcked(t *testing.T, s Store) {
	b := open(t, s)
	in, c := consume(t, b)
	publishMany(t, b, "birch", "t", 10)
	got := in.await(t, 10)
	require.Zero(t, purgeOf(t, b, "birch", time.Now().Add(time.Hour)), "nothing is acknowledged")
	require.NoError(t, c.Ack(got[0], got[1], got[3]))
	require.Zero(t, purgeOf(t, b, "birch", time.Now().Add(-time.Hour)), "nothing is old")
	require.EqualValues(t, 2, purgeOf(t, b, "birch", time.Now().Add(time.Hour)))
	st := b.Status(t.Context()).Tenants["birch"]
	require.EqualValues(t, 8, st.Chunks)
	require.EqualValues(t, 7, st.Pending)
	require.False(t, st.OldestPending.IsZero())
	require.NoError(t, c.Ack(got...))
	b = reopen(t, s, b)
	require.EqualValues(t, 8, purgeOf(t, b, "birch", time.Now().Add(time.Hour)), "after a restart")
	st = b.Status(t.Context()).Tenants["birch"]
	require.Zero(t, st.Chunks)
	require.Zero(t, st.Pending)
	require.True(t, st.OldestPending.IsZero())
}
