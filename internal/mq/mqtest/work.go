package mqtest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func workCases() []testCase {
	waits := func(c Capabilities) bool { return c.AckWaitRedelivers }
	return []testCase{
		{name: "work/order per table", run: order},
		{name: "work/acknowledged is not delivered again", run: acknowledged},
		{name: "work/acknowledged comes again after a failover at most", needs: func(c Capabilities) bool { return c.Failover }, run: failover},
		{name: "work/acknowledged stays so after a failover", needs: func(c Capabilities) bool { return c.AcksOutliveFailover }, run: failoverKeepsAcks},
		{name: "work/stop hands back what is not acknowledged", run: stopHandsBack},
		{name: "work/nak comes again after its delay", run: nak},
		{name: "work/unanswered comes again", needs: waits, run: ackWait, ackWait: shortWait},
		{name: "work/extended is not delivered again", needs: waits, run: extend, ackWait: 2 * shortWait},
		{name: "work/stuck shard delays no other", run: stuckShard},
		{name: "work/shards are assigned before they deliver", run: assigned},
		{name: "work/shard is revoked and comes back", needs: func(c Capabilities) bool { return c.Revokes }, run: revoked},
		{name: "work/message that is no chunk", needs: func(c Capabilities) bool { return c.Raw }, run: malformed},
		{name: "work/other version is handed on", run: otherVersion},
		{name: "work/ack after stop", run: ackAfterStop},
	}
}

func order(t *testing.T, s Store) {
	b := open(t, s)
	in, c := consume(t, b)
	var publishers sync.WaitGroup
	for w := range 4 {
		publishers.Go(func() {
			for n := range 50 {
				_, err := b.Publish(t.Context(), Chunk("birch", fmt.Sprint("t", w), fmt.Sprint(n)))
				assert.NoError(t, err)
			}
		})
	}
	publishers.Wait()
	seen := map[string]int{}
	for _, d := range in.await(t, 200) {
		require.Equal(t, fmt.Sprint(seen[d.Chunk().Table]), string(d.Chunk().Body))
		seen[d.Chunk().Table]++
	}
	require.NoError(t, c.Ack(in.list()...))
	require.Zero(t, pending(t, b, "birch"))
}

func acknowledged(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 20)
	in, c := consume(t, b)
	for n, d := range in.await(t, 20) {
		if n%2 == 0 {
			require.NoError(t, c.Ack(d))
		}
	}
	b = reopen(t, s, b)
	in, c = consume(t, b)
	again := in.await(t, 10)
	for n, d := range again {
		require.Equal(t, fmt.Sprint("birch/t/", 2*n+1), string(d.Chunk().Body))
	}
	last := in.settled(t, b, "birch", 10)
	require.NoError(t, c.Ack(append(again, last)...))
	require.NoError(t, c.Ack(again...), "a second time")
	b = reopen(t, s, b)
	in, _ = consume(t, b)
	in.settled(t, b, "birch", 0)
}

// failover: what comes again is what was delivered, as it was, and what was
// not acknowledged is never lost.
func failover(t *testing.T, s Store) {
	b := open(t, s)
	at := publishMany(t, b, "birch", "t", 10)
	in, c := consume(t, b)
	require.NoError(t, c.Ack(in.await(t, 10)[:6]...))
	s.Failover(t, b)
	last := publishMany(t, b, "birch", "t", 11)[10]
	eventually(t, func() bool { return in.has(last) }, "what is published after it")
	for _, d := range in.list()[6:10] {
		require.NoError(t, d.Nak(0))
	}
	want := append(numbered("birch", "t", 6, 10), numbered("birch", "t", 6, 10)...)
	eventually(t, func() bool { return contains(in.bodies(), want) }, "what was not acknowledged")
	for _, d := range in.list() {
		for n, p := range at {
			if d.Position() == p {
				require.Equal(t, fmt.Sprint("birch/t/", n), string(d.Chunk().Body))
			}
		}
	}
	require.NoError(t, c.Ack(in.list()...), "again, for those that came again")
}

// contains reports whether all of want, each as often as it is there, is in
// got.
func contains(got, want []string) bool {
	left := map[string]int{}
	for _, g := range got {
		left[g]++
	}
	for _, w := range want {
		if left[w]--; left[w] < 0 {
			return false
		}
	}
	return true
}

func failoverKeepsAcks(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 10)
	in, c := consume(t, b)
	require.NoError(t, c.Ack(in.await(t, 10)...))
	s.Failover(t, b)
	in.settled(t, b, "birch", 10)
}

func stopHandsBack(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 5)
	in, c := consume(t, b)
	got := in.await(t, 5)
	require.NoError(t, c.Ack(got[1], got[3]))
	stop(t, c)
	publishMany(t, b, "birch", "t", 1)
	require.Len(t, in.list(), 5, "delivered after Stop")
	in, _ = consume(t, b)
	in.await(t, 4)
	require.Equal(t, []string{"birch/t/0", "birch/t/2", "birch/t/4", "birch/t/0"}, in.bodies())
}

func nak(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 2)
	in, c := consume(t, b)
	first := in.await(t, 2)[0]
	const delay = 300 * time.Millisecond
	handed := time.Now()
	require.NoError(t, first.Nak(delay))
	again := in.await(t, 3)[2]
	require.GreaterOrEqual(t, time.Since(handed), delay)
	require.Equal(t, "birch/t/0", string(again.Chunk().Body))
	require.Equal(t, first.Position(), again.Position())
	require.NoError(t, again.Nak(0))
	third := in.await(t, 4)[3]
	require.NoError(t, c.Ack(third, in.list()[1]))
	in.settled(t, b, "birch", 4)
}

func ackWait(t *testing.T, s Store) {
	b := open(t, s)
	require.Equal(t, shortWait, b.AckWait())
	publishMany(t, b, "birch", "t", 1)
	in, c := consume(t, b)
	got := in.await(t, 2)
	require.Equal(t, got[0].Position(), got[1].Position())
	require.NoError(t, c.Ack(got[0]), "by the delivery that was late")
	in.settled(t, b, "birch", len(in.list()))
}

func extend(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 2)
	in, c := consume(t, b)
	got := in.await(t, 2)
	// Once the other one comes again, more than the wait has passed.
	eventually(t, func() bool {
		require.NoError(t, got[0].Extend())
		return len(in.list()) > 2
	}, "the other one to come again")
	all := in.list()
	for _, d := range all[2:] {
		require.NotEqual(t, got[0].Position(), d.Position())
	}
	require.NoError(t, c.Ack(got...))
}

// stuckShard learns which tenants share a shard, then has one stuck.
func stuckShard(t *testing.T, s Store) {
	b := open(t, s)
	var ids []tenant.ID
	for n := range 12 {
		ids = append(ids, tenant.ID(fmt.Sprint("tenant", n)))
		publishMany(t, b, ids[n], "t", 1)
	}
	in, c := consume(t, b)
	shards := map[tenant.ID]string{}
	for _, d := range in.await(t, len(ids)) {
		shards[d.Chunk().Tenant] = d.Shard().Name
	}
	require.NoError(t, c.Ack(in.list()...))
	stop(t, c)

	stuck, others := shards["tenant0"], 0
	release, inside := make(chan struct{}), make(chan struct{}, 100)
	in = &inbox{}
	consumeWith(t, b, func(d mq.Delivery) {
		if d.Shard().Name == stuck {
			inside <- struct{}{}
			<-release
		}
		in.take(d)
	})
	for _, id := range ids {
		publishMany(t, b, id, "t", 10)
		if shards[id] != stuck {
			others += 10
		}
	}
	require.Positive(t, others, "all tenants are in one shard")
	in.await(t, others)
	require.Len(t, inside, 1, "calls of one shard overlap")
	close(release)
	in.await(t, 10*len(ids))
}

func assigned(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 3)
	var mu sync.Mutex
	held, revokes := map[mq.Shard]bool{}, 0
	in := &inbox{}
	c, err := b.Consume(t.Context(), mq.Work{
		Assigned: func(s mq.Shard) { mu.Lock(); defer mu.Unlock(); held[s] = true },
		Deliver: func(d mq.Delivery) {
			mu.Lock()
			defer mu.Unlock()
			assert.True(t, held[d.Shard()], "%v was not assigned", d.Shard())
			in.take(d)
		},
		Revoked: func(mq.Shard) { mu.Lock(); defer mu.Unlock(); revokes++ },
	})
	require.NoError(t, err)
	in.await(t, 3)
	publishMany(t, b, "cedar", "t", 3)
	for _, d := range in.await(t, 6) {
		s, ok := c.Shard(d.Chunk().Topic)
		require.True(t, ok)
		require.Equal(t, d.Shard(), s)
	}
	stop(t, c)
	require.Zero(t, revokes, "the end is no revocation")
	require.NoError(t, c.Ack(in.list()...))
}

// revoked takes a shard away while a delivery of it blocks.
func revoked(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 4)
	in, left := &inbox{}, make(chan mq.Shard, 1)
	lost := make(chan struct{})
	c, err := b.Consume(t.Context(), mq.Work{
		Assigned: func(mq.Shard) {},
		Deliver: func(d mq.Delivery) {
			in.take(d)
			if string(d.Chunk().Body) == "birch/t/2" {
				<-lost
			}
		},
		Revoked: func(s mq.Shard) {
			for _, d := range in.list()[1:] {
				assert.NoError(t, d.Nak(0))
			}
			close(lost)
			left <- s
		},
	})
	require.NoError(t, err)
	defer stop(t, c)
	got := in.await(t, 3)
	require.NoError(t, c.Ack(got[0]))
	s.Revoke(t, b, got[1].Shard())
	require.Equal(t, got[1].Shard(), <-left)
	again := in.await(t, 6)[3:]
	require.ElementsMatch(t, numbered("birch", "t", 1, 4), in.bodies()[3:])
	for _, d := range again {
		require.Equal(t, got[1].Shard().Name, d.Shard().Name)
		require.NotEqual(t, got[1].Shard(), d.Shard(), "another term")
	}
	require.ErrorIs(t, c.Ack(got[1]), mq.ErrRevoked)
	require.NoError(t, c.Ack(again...))
	in.settled(t, b, "birch", 6)
	require.Empty(t, c.Failed(), "to lose a shard is no failure")
}

func malformed(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 1)
	s.Raw(t, b, mq.Topic{Tenant: "birch", Table: "t"}, []byte("not a chunk"))
	publishMany(t, b, "birch", "t", 2)
	in, c := consume(t, b)
	got := in.await(t, 4)
	bad := got[1].Chunk()
	require.Empty(t, bad.Version)
	require.Equal(t, mq.Topic{Tenant: "birch", Table: "t"}, bad.Topic)
	require.Equal(t, "not a chunk", string(bad.Body))
	require.NoError(t, c.Ack(got...))
	require.Zero(t, pending(t, b, "birch"))
}

func otherVersion(t *testing.T, s Store) {
	b := open(t, s)
	in, _ := consume(t, b)
	c := Chunk("birch", "t", "of the future")
	c.Version = "2"
	publish(t, b, c)
	require.Equal(t, c, in.await(t, 1)[0].Chunk())
	b = reopen(t, s, b)
	in, _ = consume(t, b)
	require.Equal(t, c, in.await(t, 1)[0].Chunk())
}

func ackAfterStop(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 3)
	in, c := consume(t, b)
	got := in.await(t, 3)
	stop(t, c)
	require.NoError(t, c.Ack(got...))
	in, _ = consume(t, b)
	in.settled(t, b, "birch", 0)
}
