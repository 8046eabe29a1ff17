package nats

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

// What a process was writing when it was taken for dead is known to the next owner
// of its shards, and it changes nothing of that any more.
func TestWhatAnotherProcessWasWritingIsKnown(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	o := made(t, c.JetStream(t), c, 15*time.Second, 1)
	o.share, o.Group = share, seat{newCrowd("a"), "a"}
	one := open(t, o)
	o.Group = seat{newCrowd("b"), "b"}
	two := open(t, o)

	var mu sync.Mutex
	var held []mq.Delivery
	hold := mqtest.Work(func(d mq.Delivery) { mu.Lock(); defer mu.Unlock(); held = append(held, d) })
	first, err := one.Consume(t.Context(), hold)
	require.NoError(t, err)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	var rows []mq.Rows
	for range 4 {
		at, err := one.Publish(t.Context(), mqtest.Chunk("birch", "t", "rows"))
		require.NoError(t, err)
		rows = append(rows, mq.Rows{Chunk: at})
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(held) == 4 }, time.Minute, 5*time.Millisecond)
	written := mq.Batch{Topic: topic, Rows: rows[:2]}
	running := mq.Batch{Topic: topic, Rows: []mq.Rows{rows[2], {Chunk: rows[3].Chunk, From: 2, To: 5}}}
	require.NoError(t, one.Note(written))
	require.NoError(t, one.Note(running))
	require.NoError(t, first.Ack(held[0]))
	shard, _ := first.Shard(topic)
	left := []mq.Batch{{Topic: topic, Rows: rows[1:2], Settled: true}, running}
	require.Eventually(t, func() bool {
		noted, err := two.Noted(mq.Shard{Name: shard.Name})
		return err == nil && reflect.DeepEqual(left, noted)
	}, time.Minute, 5*time.Millisecond, "in the bucket")

	second, err := two.Consume(t.Context(), mqtest.Work(func(mq.Delivery) {}))
	require.NoError(t, err)
	var theirs mq.Shard
	require.Eventually(t, func() bool { s, ok := second.Shard(topic); theirs = s; return ok }, time.Minute, 5*time.Millisecond)
	noted, err := two.Noted(theirs)
	require.NoError(t, err)
	require.Equal(t, left, noted)

	require.ErrorIs(t, one.Note(mq.Batch{Topic: topic, Rows: rows}), mq.ErrRevoked, "the shard is another's")
	next := mq.Batch{Topic: topic, Rows: rows[2:]}
	require.NoError(t, two.Note(next))
	noted, err = one.Noted(mq.Shard{Name: theirs.Name})
	require.NoError(t, err)
	require.Equal(t, []mq.Batch{left[0], next}, noted, "in the bucket")
}
