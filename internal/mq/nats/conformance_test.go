package nats

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/coord"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/mq/nats/link"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// alarm ends a context once an error is logged: no more need be waited for.
type alarm struct {
	slog.Handler
	ring context.CancelFunc
}

func withAlarm(ctx context.Context) (context.Context, *slog.Logger) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, slog.New(alarm{slog.NewTextHandler(io.Discard, nil), cancel})
}

// Handle implements slog.Handler.
func (a alarm) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		a.ring()
	}
	return nil
}

// crowd is a group whose members a test chooses.
type crowd struct {
	mu      sync.Mutex
	members []string
	changes []chan []string
}

// seat is a member's view of a crowd.
type seat struct {
	*crowd
	self string
}

func newCrowd(members ...string) *crowd { return &crowd{members: members} }

// Members implements Group.
func (s seat) Members(ctx context.Context, _ string) (coord.Membership, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := make(chan []string, 16)
	s.changes = append(s.changes, changes)
	return coord.Membership{Self: s.self, Members: s.members, Changes: changes}, ctx.Err()
}

// set changes who is there.
func (c *crowd) set(members ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = members
	for _, ch := range c.changes {
		ch <- members
	}
}

// planned is a small topology.
func planned(prefix string) topology.Plan {
	plan := topology.Default()
	plan.Prefix, plan.Bucket = prefix, prefix
	plan.Partitions, plan.Shards, plan.Replicas, plan.FileStore = 2, 3, 1, 4<<30
	return plan
}

// made is a topology of its own on a cluster, and the options for it.
func made(t *testing.T, js jetstream.JetStream, c *natstest.Cluster, ackWait time.Duration, replicas int) Options {
	t.Helper()
	plan := planned(fmt.Sprint("t", prefixes.Add(1)))
	plan.Replicas = replicas
	all := topology.Of(plan)
	for _, p := range all.Partitions {
		for n := range p.Shards {
			p.Shards[n].AckWait = ackWait
		}
	}
	require.NoError(t, topology.Apply(t.Context(), js, all))
	t.Cleanup(func() { remove(js, all) })
	return Options{
		Link: link.Options{URLs: c.URLs()}, Names: all.Names, Partitions: plan.Partitions, Shards: plan.Shards,
		Group: seat{newCrowd("self"), "self"}, share: shareByName, Logger: quiet(), TopologyWait: 30 * time.Second, minAckWait: min(ackWait, topology.MinAckWait),
	}
}

var prefixes atomic.Int64 //nolint:gochecknoglobals // names that no two tests share

func remove(js jetstream.JetStream, all topology.Topology) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	names := []string{all.DeadLetters.Name, all.BucketStream()}
	for _, p := range all.Partitions {
		names = append(names, p.Mirror.Name, p.Stream.Name)
	}
	for _, name := range names {
		_ = js.DeleteStream(ctx, name)
	}
}

// open opens a broker that is closed when the test ends, unless it was.
func open(t *testing.T, o Options) *Broker {
	t.Helper()
	b, err := New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			require.ErrorIs(t, err, mq.ErrClosed)
		}
	})
	return b
}

// unassign has another process own the shard, and no other, until it is let go of.
func unassign(_ *testing.T, b mq.Broker, s mq.Shard) {
	all := b.(*Broker).o.Group.(seat)
	all.set("self", s.Name)
	all.set("self")
}

// shareByName gives each shard to the member of its name, the rest to self.
func shareByName(members []string, all []place) map[place]string {
	owners := map[place]string{}
	for _, at := range all {
		owners[at] = "self"
		if slices.Contains(members, at.String()) {
			owners[at] = at.String()
		}
	}
	return owners
}

// lose has the feed miss a chunk that the history loses.
func lose(t *testing.T, js jetstream.JetStream, mb mq.Broker, topic mq.Topic) {
	b := mb.(*Broker)
	p, _ := b.of(topic)
	b.feeds.mu.Lock()
	r := b.feeds.readers[p.n]
	b.feeds.mu.Unlock()
	require.Eventually(t, func() bool { return r.next.Load() > 1 }, time.Minute, 5*time.Millisecond, "the one before was shown")
	r.stop()
	pos, err := b.Publish(t.Context(), mqtest.Chunk(topic.Tenant, topic.Table, "lost"))
	require.NoError(t, err)
	_, seq := mq.SplitPosition(pos)
	_, err = p.caughtUp(t.Context(), seq)
	require.NoError(t, err)
	history, err := js.Stream(t.Context(), p.history)
	require.NoError(t, err)
	require.NoError(t, history.DeleteMsg(t.Context(), seq))
	b.feeds.restart(p.n, seq)
}

// The broker is a user with the permissions that are printed for it, and no others.
func TestConformance(t *testing.T) {
	t.Parallel()
	c, user := restricted(t, 200)
	js := c.JetStream(t, operator())
	mqtest.Run(t, func(t *testing.T, ackWait time.Duration) mqtest.Store {
		o := made(t, js, c, ackWait, 1)
		o.Link = user
		return mqtest.Store{
			Open: func(t *testing.T) mq.Broker { return open(t, o) },
			Raw: func(t *testing.T, b mq.Broker, topic mq.Topic, body []byte) {
				_, at := b.(*Broker).of(topic)
				_, err := js.Publish(t.Context(), b.(*Broker).subject(topic, at), body)
				require.NoError(t, err)
			},
			Failover: func(t *testing.T, _ mq.Broker) { c.Nodes[0].Kill(); c.Nodes[0].Start(t) },
			Revoke:   unassign,
			Hole:     func(t *testing.T, b mq.Broker, topic mq.Topic) { lose(t, js, b, topic) },
		}
	}, mqtest.Capabilities{Budgets: true, Floors: true, Batches: true, AckWaitRedelivers: true, Failover: true, Revokes: true, Holes: true, Raw: true}, 10)
}
