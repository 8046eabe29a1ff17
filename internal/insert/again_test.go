package insert_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// repeater is a queue that delivers a chunk again when a test says so, and sees
// which delivery ends it.
type repeater struct {
	insert.Source
	mu      sync.Mutex
	deliver func(mq.Delivery)
	all     []*counted
	acked   []int
}

// counted is a delivery that knows which of its chunk it is.
type counted struct {
	mq.Delivery
	n int
}

type repeated struct {
	mq.Consumption
	to *repeater
}

func (r *repeater) Consume(ctx context.Context, w mq.Work) (mq.Consumption, error) {
	r.deliver = w.Deliver
	w.Deliver = func(d mq.Delivery) {
		first := &counted{d, 1}
		r.mu.Lock()
		r.all = append(r.all, first)
		r.mu.Unlock()
		r.deliver(first)
	}
	c, err := r.Source.Consume(ctx, w)
	return repeated{c, r}, err
}

// again delivers everything that came once more.
func (r *repeater) again() {
	r.mu.Lock()
	all := r.all
	r.mu.Unlock()
	for _, d := range all {
		r.deliver(&counted{d.Delivery, d.n + 1})
	}
}

func (c repeated) Ack(ds ...mq.Delivery) error {
	bare := make([]mq.Delivery, len(ds))
	c.to.mu.Lock()
	for i, d := range ds {
		bare[i] = d.(*counted).Delivery
		c.to.acked = append(c.to.acked, d.(*counted).n)
	}
	c.to.mu.Unlock()
	return c.Consumption.Ack(bare...)
}

// TestTheNewerDeliveryOfAChunkInHandEndsIt: the queue counts the one before as
// over.
func TestTheNewerDeliveryOfAChunkInHandEndsIt(t *testing.T) {
	t.Parallel()
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	s := &sink{name: "ch", fail: func(statement) error {
		held <- struct{}{}
		<-hold
		return nil
	}}
	r := newRig(t).open()
	queue := &repeater{Source: r.broker}
	r.start(func(o *insert.WorkerOptions) { o.Broker, o.Pool = queue, pool(s) })
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 3)))
	select {
	case <-held:
	case <-time.After(60 * time.Second):
		require.Fail(t, "no INSERT")
	}
	queue.again()
	close(hold)
	r.settled(birch)
	queue.mu.Lock()
	defer queue.mu.Unlock()
	assert.Equal(t, []int{2}, queue.acked)
	assert.Len(t, s.rows(), 3, "it is written once all the same")
}

// TestProgressOfTablesInSeveralShards: a queue that is shared has several shards
// of one tenant, whose positions do not compare.
func TestProgressOfTablesInSeveralShards(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	q := newSharded(t, s, nil)
	names := []string{"pages", "others", "a", "b", "c", "d"}
	shards := map[mq.Shard]string{}
	for n, name := range names {
		q.sendTo(name, n, n+1)
		shards[q.broker.Shard(mq.Topic{Tenant: birch, Table: name})] = name
	}
	require.Greater(t, len(shards), 1, "the tables lie in several shards")
	waitFor(t, "the rows", func() bool { return len(s.rows()) == len(names) })
	for _, name := range names {
		topic := mq.Topic{Tenant: birch, Table: name}
		tail, err := q.broker.Tail(t.Context(), topic)
		require.NoError(t, err)
		waitFor(t, "progress of "+name, func() bool {
			p, ours := q.worker.Progress(topic)
			return ours && p.Quiet && p.Frontier == tail
		})
	}
}
