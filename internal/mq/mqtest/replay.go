package mqtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

func replayCases() []testCase {
	return []testCase{
		{name: "replay/bounds and topic", run: replayBounds},
		{name: "replay/to a slow reader", run: replaySlow},
		{name: "replay/reader's error ends it", run: replayError},
		{name: "replay/position of another epoch", run: replayEpoch},
		{name: "replay/tail and position at a time", run: positions},
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

// all is the topic's history.
func all(t *testing.T, b mq.Broker, topic mq.Topic) []string {
	t.Helper()
	tail, err := b.Tail(t.Context(), topic)
	require.NoError(t, err)
	return history(t, b, topic, mq.Position{}, tail)
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
	tail, err := b.Tail(t.Context(), topic)
	require.NoError(t, err)
	require.Len(t, history(t, b, topic, mq.Position{}, tail), 55)
	require.Len(t, all(t, b, mq.Topic{Tenant: "birch", Table: "a.b"}), 10)
	require.Equal(t, numbered("birch", "a", 0, 10), history(t, b, topic, at[8], at[9]))
	require.Empty(t, history(t, b, topic, at[9], at[9]))
	require.Empty(t, history(t, b, topic, at[9], tail))
	require.Empty(t, history(t, b, topic, at[9], at[3]), "until before from")
	require.Empty(t, all(t, b, mq.Topic{Tenant: "birch", Table: "none"}))
	require.Empty(t, history(t, b, mq.Topic{Tenant: "cedar", Table: "a"}, mq.Position{}, mq.Position{}))
	b = reopen(t, s, b)
	require.Equal(t, numbered("birch", "a", 0, 10), history(t, b, topic, at[8], at[9]), "after a restart")
}

func replaySlow(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 700)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	until, err := b.Tail(t.Context(), topic)
	require.NoError(t, err)
	var got []string
	err = b.Replay(t.Context(), topic, mq.Position{}, until, func(c mq.Chunk, _ mq.Position) error {
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
	require.Equal(t, at[0], requireGap(t, b.Replay(t.Context(), topic, foreign, at[2], never), mq.GapReset))
	requireGap(t, b.Replay(t.Context(), mq.Topic{Tenant: "cedar", Table: "t"}, foreign, foreign, never), mq.GapReset)
}

func positions(t *testing.T, s Store) {
	b, topic := open(t, s), mq.Topic{Tenant: "birch", Table: "t"}
	tail, err := b.Tail(t.Context(), topic)
	require.NoError(t, err)
	require.True(t, tail.IsZero())
	at, err := b.PositionAt(t.Context(), topic, time.Now())
	require.NoError(t, err)
	require.True(t, at.IsZero())
	before := time.Now()
	old := publishMany(t, b, "birch", "t", 3)
	time.Sleep(2 * time.Millisecond) // the stored times differ
	between := time.Now()
	fresh := publishMany(t, b, "birch", "t", 2)
	tail, err = b.Tail(t.Context(), topic)
	require.NoError(t, err)
	require.Equal(t, fresh[1], tail)
	first, err := b.FirstKept(t.Context(), topic)
	require.NoError(t, err)
	require.True(t, first.IsZero(), "history is whole")
	for moment, want := range map[time.Time]int{before: 5, between: 2, time.Now().Add(time.Hour): 0} {
		at, err := b.PositionAt(t.Context(), topic, moment)
		require.NoError(t, err)
		require.Len(t, history(t, b, topic, at, tail), want)
	}
	at, err = b.PositionAt(t.Context(), topic, between)
	require.NoError(t, err)
	require.Equal(t, old[2], at)
}
