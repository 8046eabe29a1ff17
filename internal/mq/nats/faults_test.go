package nats

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

// ledger counts bodies: what was published and answered, and what became of it.
type ledger struct {
	mu        sync.Mutex
	answered  map[string]mq.Position
	delivered map[string]int
	shown     map[mq.Topic][]string
	positions map[mq.Topic][]mq.Position
	holes     int
}

func newLedger() *ledger {
	return &ledger{
		answered: map[string]mq.Position{}, delivered: map[string]int{},
		shown: map[mq.Topic][]string{}, positions: map[mq.Topic][]mq.Position{},
	}
}

// worker acknowledges what comes, and notes it once that is done.
func (l *ledger) worker(t *testing.T, b *Broker) mq.Consumption {
	t.Helper()
	var c mq.Consumption
	ready := make(chan struct{})
	c, err := b.Consume(t.Context(), mqtest.Work(func(d mq.Delivery) {
		<-ready
		for c.Ack(d) != nil && t.Context().Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.delivered[string(d.Chunk().Body)]++
	}))
	require.NoError(t, err)
	close(ready)
	return c
}

func (l *ledger) viewer() mq.Viewer {
	return mq.Viewer{
		Chunk: func(c mq.Chunk, pos mq.Position) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.shown[c.Topic] = append(l.shown[c.Topic], string(c.Body))
			l.positions[c.Topic] = append(l.positions[c.Topic], pos)
		},
		Hole: func(mq.Hole) { l.mu.Lock(); defer l.mu.Unlock(); l.holes++ },
	}
}

// missing lists what was answered and has not been delivered, or not shown.
func (l *ledger) missing() (undelivered, unshown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := map[string]bool{}
	for _, all := range l.shown {
		for _, body := range all {
			shown[body] = true
		}
	}
	for body := range l.answered {
		if l.delivered[body] == 0 {
			undelivered++
		}
		if !shown[body] {
			unshown++
		}
	}
	return undelivered, unshown
}

// publishers publish numbered chunks of a few tables, each again under its id until
// it is answered, until stop is called.
func (l *ledger) publishers(t *testing.T, b *Broker) (stop func()) {
	var all sync.WaitGroup
	var ended atomic.Bool
	for w := range 6 {
		all.Go(func() {
			for n := 0; !ended.Load(); n++ {
				c := mqtest.Chunk("birch", fmt.Sprint("t", w), fmt.Sprintf("%d/%06d", w, n))
				c.ID = string(c.Body)
				for {
					pos, err := b.Publish(context.Background(), c)
					if err == nil {
						l.mu.Lock()
						l.answered[string(c.Body)] = pos
						l.mu.Unlock()
						break
					}
					if !assert.NotErrorIs(t, err, mq.ErrClosed) {
						return
					}
				}
				time.Sleep(4 * time.Millisecond)
			}
		})
	}
	return func() { ended.Store(true); all.Wait() }
}

// Nodes are killed with -9 and leaders step down under load. Nothing that was
// answered is lost: it reaches a worker, the live feed in order and without a hole,
// and a replay.
func TestNothingIsLostWhenNodesAreKilled(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{Nodes: 3})
	nc := c.Connect(t)
	js := c.JetStream(t)
	o := made(t, js, c, 15*time.Second, 3)
	o.PublishTimeout, o.share = 2*time.Second, share
	group := newCrowd("a", "b")
	o.Group = seat{group, "a"}
	one := open(t, o)
	o.Group = seat{group, "b"}
	two := open(t, o)
	l := newLedger()
	feed, err := two.Feed(t.Context(), l.viewer())
	require.NoError(t, err)
	defer feed.Close()
	for _, b := range []*Broker{one, two} {
		defer func(c mq.Consumption) { assert.NoError(t, c.Stop(context.Background())); assert.Empty(t, c.Failed()) }(l.worker(t, b))
	}
	stop := l.publishers(t, one)
	streams := []string{o.Names.Ingest(0), o.Names.History(0), o.Names.Ingest(1), o.Names.History(1)}
	random := rand.New(rand.NewPCG(1, 0))
	for n := range 6 {
		stream := streams[random.IntN(len(streams))]
		progress := l.count()
		if n%2 == 0 {
			node := c.Leader(t, js, stream)
			node.Kill()
			pauseFor(t, l, progress, 100)
			node.Start(t)
		} else {
			c.StepDown(t, nc, stream)
		}
		pauseFor(t, l, l.count(), 300)
	}
	stop()
	natstest.Await(t, "all is delivered and shown", func(context.Context) error {
		if undelivered, unshown := l.missing(); undelivered+unshown > 0 {
			return fmt.Errorf("of %d answered %d are not delivered, %d not shown", len(l.answered), undelivered, unshown)
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Zero(t, l.holes)
	repeated := 0
	for _, n := range l.delivered {
		repeated += n - 1
	}
	t.Logf("%d chunks answered, %d deliveries repeated", len(l.answered), repeated)
	for topic, positions := range l.positions {
		require.True(t, slices.IsSortedFunc(positions, func(a, b mq.Position) int { order, _ := a.Compare(b); return order }), "the feed of %v is in order", topic)
		require.True(t, slices.IsSorted(l.shown[topic]), "what was published in order is shown in order")
		require.Len(t, slices.Compact(slices.Clone(l.shown[topic])), len(l.shown[topic]), "nothing is shown twice")
		tail, err := one.Tail(t.Context(), topic)
		require.NoError(t, err)
		var replayed []string
		require.NoError(t, one.Replay(t.Context(), topic, mq.Position{}, tail, func(c mq.Chunk, _ mq.Position) error {
			replayed = append(replayed, string(c.Body))
			return nil
		}))
		require.Equal(t, l.shown[topic], replayed)
	}
	for body, pos := range l.answered {
		require.Contains(t, l.positions[mq.Topic{Tenant: "birch", Table: "t" + body[:1]}], pos, "%s has the position that was answered", body)
	}
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.answered)
}

// pauseFor waits until so many more were answered.
func pauseFor(t *testing.T, l *ledger, from, more int) {
	t.Helper()
	natstest.Await(t, "publishing goes on", func(context.Context) error {
		if n := l.count() - from; n < more {
			return fmt.Errorf("%d of %d", n, more)
		}
		return nil
	})
}

// A process that dies with chunks in its hands is taken over by another; one that
// goes in order hands over at once; and while a shard moves nobody loses or doubles
// what a living process holds.
func TestShardsMoveBetweenProcesses(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	js := c.JetStream(t)
	o := made(t, js, c, 10*time.Second, 1)
	o.share = share
	group := newCrowd("a")
	o.Group = seat{group, "a"}
	one := open(t, o)
	o.Group = seat{group, "b"}
	two := open(t, o)

	var mu sync.Mutex
	held := map[string][]mq.Delivery{} // what the first holds and does not end
	var revoked atomic.Int32
	_, err := one.Consume(t.Context(), mq.Work{
		Assigned: func(mq.Shard) {},
		Deliver: func(d mq.Delivery) {
			mu.Lock()
			defer mu.Unlock()
			// On a slow machine it comes again, to the same hands.
			before := slices.DeleteFunc(held[d.Shard().Name], func(h mq.Delivery) bool { return h.Position() == d.Position() })
			held[d.Shard().Name] = append(before, d)
		},
		Revoked: func(s mq.Shard) {
			mu.Lock()
			defer mu.Unlock()
			revoked.Add(1)
			for _, d := range held[s.Name] {
				assert.NoError(t, d.Nak(0))
			}
			delete(held, s.Name)
		},
	})
	require.NoError(t, err)
	count := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, ds := range held {
			n += len(ds)
		}
		return n
	}
	for n := range 60 {
		_, err := one.Publish(t.Context(), mqtest.Chunk("birch", fmt.Sprint("t", n), fmt.Sprint(n)))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return count() == 60 }, time.Minute, 5*time.Millisecond)

	l := newLedger()
	worker := l.worker(t, two)
	group.set("a", "b")
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return count()+len(l.delivered) == 60 && revoked.Load() == 3
	},
		time.Minute, 5*time.Millisecond, "half of the shards are the other's")
	l.mu.Lock()
	for body, n := range l.delivered {
		assert.Equal(t, 1, n, body)
	}
	l.mu.Unlock()
	left := count()
	require.Positive(t, left)

	// The first dies: it extends and answers nothing any more.
	one.api.Close()
	one.pub.Close()
	group.set("b")
	require.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.delivered) == 60 }, time.Minute, 20*time.Millisecond, "taken over")
	require.NoError(t, worker.Stop(t.Context()))
	for body, n := range l.delivered {
		assert.Equal(t, 1, n, body)
	}
}

// What belongs to a durable that is gone would be gone at once: it is refused
// instead, and taken again when the durable is back. The other shards go on.
func TestPublishingStopsWhereADurableIsGone(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	js := c.JetStream(t)
	o := made(t, js, c, 15*time.Second, 1)
	b := open(t, o)
	in := newLedger()
	worker := in.worker(t, b)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	_, at := b.of(topic)
	other := topic
	for n := 0; ; n++ {
		other.Table = fmt.Sprint("u", n)
		if _, place := b.of(other); place != at {
			break
		}
	}
	put := func(t mq.Topic, body string) error {
		_, err := b.Publish(context.Background(), mqtest.Chunk(t.Tenant, t.Table, body))
		return err
	}
	require.NoError(t, put(topic, "before"))
	delivered := func(bodies ...string) func() bool {
		return func() bool {
			in.mu.Lock()
			defer in.mu.Unlock()
			return !slices.ContainsFunc(bodies, func(body string) bool { return in.delivered[body] == 0 })
		}
	}
	// What waits goes with a durable that is deleted.
	require.Eventually(t, delivered("before"), time.Minute, time.Millisecond)
	require.NoError(t, js.DeleteConsumer(t.Context(), o.Names.Ingest(at.partition), o.Names.Shard(at.shard)))
	require.Eventually(t, func() bool { return put(topic, "while it is gone") != nil }, time.Minute, time.Millisecond)
	err := put(topic, "while it is gone")
	require.ErrorIs(t, err, mq.ErrUnavailable)
	require.ErrorContains(t, err, o.Names.Ingest(at.partition))
	require.Eventually(t, func() bool { return !b.watch.ok.Load() }, time.Minute, 5*time.Millisecond)
	require.NoError(t, put(other, "other shard"))

	plan := topology.Default()
	plan.Names, plan.Partitions, plan.Shards, plan.Replicas, plan.FileStore = o.Names, o.Partitions, o.Shards, 1, 4<<30
	require.NoError(t, topology.Apply(t.Context(), js, topology.Of(plan)))
	b.watch.soon()
	require.Eventually(t, func() bool { return put(topic, "back") == nil }, time.Minute, 5*time.Millisecond)
	require.Eventually(t, delivered("other shard", "back"), time.Minute, 5*time.Millisecond)
	require.Empty(t, worker.Failed())
	require.NoError(t, worker.Stop(t.Context()))
}

// A partition that is full, or a table that has its share, refuses its own and
// clears once that is written.
func TestAFullPartitionRefusesItsOwn(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	js := c.JetStream(t)
	o := made(t, js, c, 15*time.Second, 1)
	b := open(t, o)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	p, at := b.of(topic)
	stream, err := js.Stream(t.Context(), p.stream)
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgsPerSubject = 5
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	put := func(table string) error {
		_, err := b.Publish(t.Context(), mqtest.Chunk("birch", table, "x"))
		return err
	}
	for range 5 {
		require.NoError(t, put("t"))
	}
	require.ErrorIs(t, put("t"), mq.ErrFull)
	other := "u"
	for n := 0; ; n++ {
		other = fmt.Sprint("u", n)
		if q, _ := b.of(mq.Topic{Tenant: "birch", Table: other}); q.n == at.partition {
			break
		}
	}
	require.NoError(t, put(other), "another table of the partition")
	worker := newLedger().worker(t, b)
	require.Eventually(t, func() bool { return put("t") == nil }, time.Minute, 5*time.Millisecond)
	require.NoError(t, worker.Stop(t.Context()))
	config.MaxMsgsPerSubject, config.MaxBytes = 1000, 64<<10
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	for err = nil; err == nil; {
		_, err = b.Publish(t.Context(), mqtest.Chunk("birch", "t", string(make([]byte, 8<<10))))
	}
	require.ErrorIs(t, err, mq.ErrFull)
	require.NoError(t, b.Full(), "other partitions have room")
}

func TestWhatIsWrongIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	js := c.JetStream(t)
	o := made(t, js, c, 15*time.Second, 1)
	require.NoError(t, js.DeleteConsumer(t.Context(), o.Names.Ingest(0), o.Names.Shard(1)))
	require.NoError(t, js.DeleteStream(t.Context(), o.Names.DeadLetters()))
	ctx, log := withAlarm(t.Context())
	o.Logger, o.TopologyWait = log, time.Minute
	_, err := New(ctx, o)
	var wrong *topology.Error
	require.ErrorAs(t, err, &wrong)
	for _, want := range []string{o.Names.Ingest(0) + " " + o.Names.Shard(1), o.Names.DeadLetters(), "num_replicas"} {
		require.ErrorContains(t, err, want)
	}
}

// What the operator changes while the service runs is named, also where the server says
// nothing of it, and no more once it is as before.
func TestWhatChangesIsNamedAndHeals(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	js := c.JetStream(t)
	o := made(t, js, c, 15*time.Second, 1)
	o.watchEvery, o.drainEvery = 50*time.Millisecond, 50*time.Millisecond
	b := open(t, o)
	plan := planned(o.Names.Prefix)
	for what, change := range map[string]func(*topology.Topology){
		"filter is": func(w *topology.Topology) {
			f := &w.Partitions[1].Shards[2].FilterSubject
			*f = strings.TrimSuffix(*f, ">") + "birch.>"
		},
		"max_deliver is 5":     func(w *topology.Topology) { w.Partitions[0].Shards[1].MaxDeliver = 5 },
		"max_age is 1h0m0s":    func(w *topology.Topology) { w.Partitions[0].Stream.MaxAge = time.Hour },
		"max_msg_size is 4096": func(w *topology.Topology) { w.DeadLetters.MaxMsgSize = 4096 },
	} {
		now := topology.Of(plan)
		change(&now)
		require.NoError(t, topology.Apply(t.Context(), js, now))
		require.Eventually(t, func() bool { err := b.Status(); return err != nil && strings.Contains(err.Error(), what) }, time.Minute, 5*time.Millisecond, what)
		require.NoError(t, topology.Apply(t.Context(), js, topology.Of(plan)))
		require.Eventually(t, func() bool { return b.Status() == nil }, time.Minute, 5*time.Millisecond, "%s: %v", what, b.Status())
	}
}

func TestAClusterThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	o := made(t, c.JetStream(t), c, 15*time.Second, 1)
	c.Nodes[0].Stop()
	o.TopologyWait = time.Second
	_, err := New(t.Context(), o)
	require.ErrorIs(t, err, mq.ErrUnavailable)
	require.ErrorContains(t, err, c.Nodes[0].URL())
	c.Nodes[0].Start(t)
}
