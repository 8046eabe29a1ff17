package nats

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

// A process that counts other shards than those that deliver gets none, and theirs
// once they are gone.
func TestProcessesThatCountOtherShardsRefuseEachOther(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	o := made(t, c.JetStream(t), c, 15*time.Second, 1)
	o.layoutOld = 5 * time.Second
	one, same := open(t, o), open(t, o)
	o.Shards = 2
	other := open(t, o)
	owned := func(b *Broker) int {
		b.mu.Lock()
		c := b.consumer
		b.mu.Unlock() // who settles the shards holds the consumption's lock when it takes this one
		n, _, _ := c.counts()
		return n
	}
	l := newLedger()
	first := l.worker(t, one)
	require.Eventually(t, func() bool { return owned(one) == 6 }, time.Minute, 5*time.Millisecond)
	second, third := l.worker(t, same), l.worker(t, other)
	require.Eventually(t, func() bool { return owned(same) == 6 }, time.Minute, 5*time.Millisecond, "it agrees")
	for end := time.Now().Add(o.layoutOld + time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		require.Zero(t, owned(other), "while others count six")
	}
	require.NoError(t, first.Stop(t.Context()))
	require.NoError(t, second.Stop(t.Context()))
	require.Eventually(t, func() bool { return owned(other) == 4 }, time.Minute, 5*time.Millisecond, "once they are gone")
	_, err := other.Publish(t.Context(), mqtest.Chunk("birch", "t", "row"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.delivered["row"] == 1 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, third.Stop(t.Context()))
}

// What waits in shards that are no longer counted is delivered still.
func TestShardsThatAreLeftOverAreDrained(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	js := c.JetStream(t)
	o := made(t, js, c, 15*time.Second, 1)
	o.layoutOld, o.drainEvery = 2*time.Second, 500*time.Millisecond
	b := open(t, o)
	for n := range 40 {
		_, err := b.Publish(t.Context(), mqtest.Chunk("birch", fmt.Sprint("t", n), fmt.Sprint(n)))
		require.NoError(t, err)
	}
	require.NoError(t, b.Close(t.Context()))
	o.Shards = 1
	b = open(t, o)
	l := newLedger()
	worker := l.worker(t, b)
	delivered := func(n int) func() bool {
		return func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.delivered) == n }
	}
	require.Eventually(t, delivered(40), time.Minute, 5*time.Millisecond)
	require.Eventually(t, func() bool { n, _, _ := b.consumer.counts(); return n == 2 }, time.Minute, 5*time.Millisecond, "they are let go of")
	for p := range o.Partitions {
		for _, s := range []int{1, 2} {
			require.NoError(t, js.DeleteConsumer(t.Context(), o.Names.Ingest(p), o.Names.Shard(s)))
		}
	}
	_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", "after"))
	require.NoError(t, err)
	require.Eventually(t, delivered(41), time.Minute, 5*time.Millisecond)
	require.NoError(t, worker.Stop(t.Context()))
}

// A reader goes on where it was though the number of shards has changed since.
func TestReplaysReachBackOverAChangeOfShards(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	o := made(t, c.JetStream(t), c, 15*time.Second, 1)
	o.Partitions = 1
	b := open(t, o)
	topic := mq.Topic{Tenant: "birch"}
	for n := 0; topic.Table == "" || placeOf(topic, 1, o.Shards).shard == 0; n++ {
		topic.Table = fmt.Sprint("t", n)
	}
	put := func(body string) {
		_, err := b.Publish(t.Context(), mqtest.Chunk(topic.Tenant, topic.Table, body))
		require.NoError(t, err)
	}
	put("before")
	require.NoError(t, b.Close(t.Context()))
	o.Shards = 1
	b = open(t, o)
	put("after")
	tail, err := b.Tail(t.Context(), topic)
	require.NoError(t, err)
	var replayed []string
	require.NoError(t, b.Replay(t.Context(), topic, mq.Position{}, tail, func(c mq.Chunk, _ mq.Position) error {
		replayed = append(replayed, string(c.Body))
		return nil
	}))
	require.Equal(t, []string{"before", "after"}, replayed)
}

// Whoever counts other shards need not wait once the last one has ended in order.
func TestTheLastProcessGivesTheCountUp(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	o := made(t, c.JetStream(t), c, 15*time.Second, 1)
	o.share = share
	group := newCrowd("a", "b")
	o.Group = seat{group, "a"}
	one := open(t, o)
	counted := func() string {
		value, _, err := one.readKey(t.Context(), layoutKey)
		require.NoError(t, err)
		return string(value)
	}
	l := newLedger()
	require.NoError(t, l.worker(t, one).Stop(t.Context()))
	require.NotEmpty(t, counted(), "the other is there still")
	group.set("a")
	require.NoError(t, l.worker(t, one).Stop(t.Context()))
	require.Empty(t, counted())
	o.Shards = 2
	other := open(t, o)
	worker := l.worker(t, other)
	require.Eventually(t, func() bool { return counted() == "2 partitions of 2 shards" }, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, worker.Stop(t.Context()))
}
