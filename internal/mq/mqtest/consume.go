package mqtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func consumeCases() []testCase {
	return []testCase{
		{name: "consume/order per table", needs: anyBroker, run: order},
		{name: "consume/acknowledged is not delivered again", needs: anyBroker, run: acknowledged},
		{name: "consume/stop hands back what is not acknowledged", needs: anyBroker, run: stopHandsBack},
		{name: "consume/nak comes again after its delay", needs: anyBroker, run: nak},
		{name: "consume/unanswered comes again", needs: func(c Capabilities) bool { return c.AckWaitRedelivers }, run: ackWait, ackWait: shortWait},
		{name: "consume/extended is not delivered again", needs: func(c Capabilities) bool { return c.AckWaitRedelivers }, run: extend, ackWait: shortWait},
		{name: "consume/stuck tenant delays no other", needs: anyBroker, run: stuckTenant},
		{name: "consume/what is held is bounded", needs: anyBroker, run: bounded},
		{name: "consume/message that is no chunk", needs: func(c Capabilities) bool { return c.Raw }, run: malformed},
		{name: "consume/other version is handed on", needs: anyBroker, run: otherVersion},
		{name: "consume/ack after stop", needs: anyBroker, run: ackAfterStop},
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
	require.Zero(t, b.Status(t.Context()).Tenants["birch"].Pending)
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
	require.Equal(t, 2, again.Attempt())
	require.Equal(t, first.Position(), again.Position())
	require.NoError(t, again.Nak(0))
	third := in.await(t, 4)[3]
	require.Equal(t, 3, third.Attempt())
	require.NoError(t, c.Ack(third, in.list()[1]))
	in.settled(t, b, "birch", 4)
}

func ackWait(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 1)
	in, c := consume(t, b)
	got := in.await(t, 2)
	require.Equal(t, 2, got[1].Attempt())
	require.Equal(t, got[0].Position(), got[1].Position())
	require.NoError(t, c.Ack(got[0]), "by the delivery that was late")
	in.settled(t, b, "birch", len(in.list()))
}

func extend(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 2)
	in, c := consume(t, b)
	got := in.await(t, 2)
	for end := time.Now().Add(3 * shortWait); time.Now().Before(end); time.Sleep(shortWait / 10) {
		require.NoError(t, got[0].Extend())
	}
	all := in.list()
	require.Greater(t, len(all), 2, "the other one comes again")
	for _, d := range all[1:] {
		require.NotEqual(t, got[0].Position(), d.Position())
	}
	require.NoError(t, c.Ack(got...))
}

func stuckTenant(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 3)
	release := make(chan struct{})
	in := &inbox{}
	var stuck atomic.Int32
	c := consumeWith(t, b, func(d mq.Delivery) {
		if d.Chunk().Tenant == "birch" {
			stuck.Add(1)
			<-release
		}
		in.take(d)
	})
	eventually(t, func() bool { return stuck.Load() == 1 }, "the stuck tenant")
	for _, id := range []tenant.ID{"cedar", "dogwood"} {
		publishMany(t, b, id, "t", 10)
	}
	require.NoError(t, c.Ack(in.await(t, 20)...))
	require.EqualValues(t, 1, stuck.Load(), "calls of one tenant overlap")
	close(release)
	in.await(t, 23)
}

// bounded fills what a consumption may hold with one tenant's chunks.
func bounded(t *testing.T, s Store) {
	b := open(t, s)
	body := string(make([]byte, 100<<10))
	for range 20 {
		publish(t, b, Chunk("birch", "t", body))
	}
	in := &inbox{}
	c, err := b.Consume(context.Background(), mq.ConsumeOptions{MaxBytesPerTenant: 500 << 10, MaxBytes: 1 << 20}, in.take)
	require.NoError(t, err)
	defer stop(t, c)
	in.await(t, 3)
	publishMany(t, b, "cedar", "t", 2)
	eventually(t, func() bool {
		n := 0
		for _, d := range in.list() {
			if d.Chunk().Tenant == "cedar" {
				n++
			}
		}
		return n == 2
	}, "the tenant that has nothing out")
	require.Less(t, len(in.list()), 12, "one tenant was given more than its share")
	for done := 0; done < 22; {
		got := in.await(t, done+1)
		require.NoError(t, c.Ack(got[done:]...))
		done = len(got)
	}
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
	require.Zero(t, b.Status(t.Context()).Tenants["birch"].Pending)
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
