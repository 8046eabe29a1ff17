package insert_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// A delivery that comes again while its rows are in hand is not written twice.
func TestInsertSlowerThanTheAckWait(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := &sink{name: "ch", fail: func(statement) error { <-release; return nil }}
	r := newRig(t)
	r.ackFor = 200 * time.Millisecond
	r.open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	r.acks.wait = time.Hour // so that it does not extend
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	waitFor(t, "the insert", func() bool { return len(s.seen()) == 1 })
	waitFor(t, "it to come again", func() bool { return r.acks.cameOf("pages") >= 3 })
	close(release)
	r.settled(birch)
	assert.Len(t, s.seen(), 1)
	assertSameRows(t, ingesttest.Rows(0, 10), s.rows())
}

func TestStopWhileClickHouseIsAway(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	s := &sink{name: "ch", fail: func(statement) error {
		if away.Load() {
			return unreachable()
		}
		return nil
	}}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 500)))
	slow := func(o *insert.WorkerOptions) {
		o.Pool, o.BackoffMin, o.BackoffMax = pool(s), time.Minute, time.Minute
	}
	r.start(slow)
	waitFor(t, "a failure", func() bool { return r.worker.Status().PoolsWaiting == 1 })
	r.close()
	away.Store(false)
	r.start(slow)
	r.settled(birch)
	assertSameRows(t, ingesttest.Rows(0, 500), s.rows())
	assert.Empty(t, r.letters(birch, "pages"))
}

// A ClickHouse that does not answer holds the stop no longer than agreed.
func TestStopWhileAnInsertHangs(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(i statement) error {
		<-i.ctx.Done()
		return i.ctx.Err()
	}}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 5)))
	r.start(func(o *insert.WorkerOptions) { o.Pool, o.DrainTimeout = pool(s), 100*time.Millisecond })
	waitFor(t, "the insert", func() bool { return len(s.seen()) == 1 })
	r.stop()
	assert.EqualValues(t, 1, r.pending(birch))
}

// What is in hand when the stop comes is written, not left.
func TestWorkerStopWritesWhatIsInHand(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool, o.Settings = pool(s), served(insert.Flush{MaxWait: time.Hour}, true)
	})
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 1500)))
	waitFor(t, "delivery", func() bool { return r.worker.Status().HeldChunks == 2 })
	assert.False(t, r.worker.Status().OldestUnwritten.IsZero())
	r.stop()
	assertSameRows(t, ingesttest.Rows(0, 1500), s.rows())
	assert.Zero(t, r.pending(birch))
}

// One tenant whose ClickHouse hangs delays no other, and holds no more than
// its share.
func TestWorkerTenantsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	hung := &sink{name: "hung", fail: func(i statement) error { <-i.ctx.Done(); return i.ctx.Err() }}
	well := &sink{name: "well"}
	const share = 64 << 10
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.MaxHeldPerTenant, o.MaxHeld, o.DrainTimeout = share, 2*share, time.Second
		o.Pool = func(id tenant.ID) (insert.Inserter, error) {
			if id == cedar {
				return hung, nil
			}
			return well, nil
		}
	})
	table := ingesttest.Pages()
	for i := range 40 {
		req := ingesttest.Request(table, record.NDJSON, ingesttest.Lines(1000*i, 1000*i+1000))
		req.Tenant = cedar
		r.send(req)
	}
	waitFor(t, "the share to be used up", func() bool { return r.worker.Status().HeldBytes > share/2 })
	for i := range 40 {
		r.send(ingesttest.Request(table, record.NDJSON, ingesttest.Lines(1000*i, 1000*i+1000)))
	}
	r.settled(birch)
	assert.Len(t, well.rows(), 40_000)
	assert.LessOrEqual(t, r.worker.Status().HeldBytes, int64(share+(1<<20)))
	assert.EqualValues(t, 40, r.pending(cedar))
}

// A share that is used up by batches that would rather wait is flushed.
func TestWorkerFullShareDoesNotWaitForBatchesToFill(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool, o.MaxHeldPerTenant, o.Settings = pool(s), 32<<10, served(insert.Flush{MaxWait: time.Hour}, true)
	})
	for i := range 40 {
		table := ingesttest.Pages()
		table.Name = fmt.Sprint("t", i%3)
		r.send(ingesttest.Request(table, record.NDJSON, ingesttest.Lines(1000*i, 1000*i+1000)))
	}
	waitFor(t, "most rows", func() bool { return len(s.rows()) >= 30_000 })
	assert.LessOrEqual(t, r.worker.Status().HeldBytes, int64(32<<10))
}

// ackFails is a queue whose first acknowledgements fail.
type ackFails struct {
	insert.Source
	left atomic.Int32
}

type failingConsumption struct {
	mq.Consumption
	of *ackFails
}

func (a *ackFails) Consume(ctx context.Context, work mq.Work) (mq.Consumption, error) {
	c, err := a.Source.Consume(ctx, work)
	return failingConsumption{c, a}, err
}

func (c failingConsumption) Ack(ds ...mq.Delivery) error {
	if c.of.left.Add(-1) >= 0 {
		return errors.New("disk error")
	}
	return c.Consumption.Ack(ds...)
}

// Rows that are written but could not be acknowledged are not written again
// when they are delivered again.
func TestWorkerAcknowledgesAgain(t *testing.T) {
	t.Parallel()
	for _, failures := range []int32{1, 5} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			s := &sink{name: "ch"}
			r := newRig(t)
			r.ackFor = 300 * time.Millisecond
			r.open()
			source := &ackFails{Source: r.broker}
			source.left.Store(failures)
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
			r.start(func(o *insert.WorkerOptions) { o.Broker, o.Pool = source, pool(s) })
			r.settled(birch)
			assertSameRows(t, ingesttest.Rows(0, 10), s.rows())
		})
	}
}

// brokenSource is a queue whose delivery fails.
type brokenSource struct{ refuse bool }

func (b brokenSource) AckWait() time.Duration { return time.Minute }

func (b brokenSource) Consume(context.Context, mq.Work) (mq.Consumption, error) {
	if b.refuse {
		return nil, errors.New("no such queue")
	}
	failed := make(chan error, 1)
	failed <- errors.New("the stream is gone")
	return brokenConsumption{failed}, nil
}

type brokenConsumption struct{ failed chan error }

func (c brokenConsumption) Ack(...mq.Delivery) error { return nil }

func (c brokenConsumption) Shard(mq.Topic) (mq.Shard, bool) { return mq.Shard{}, false }

func (c brokenConsumption) Stop(context.Context) error { return errors.New("cannot stop") }

func (c brokenConsumption) Failed() <-chan error { return c.failed }

func TestWorkerEndsWhenDeliveryDoes(t *testing.T) {
	t.Parallel()
	err := insert.NewWorker(insert.WorkerOptions{Broker: brokenSource{refuse: true}}).Run(t.Context())
	assert.ErrorContains(t, err, "no such queue")
	err = insert.NewWorker(insert.WorkerOptions{Broker: brokenSource{}}).Run(t.Context())
	assert.ErrorContains(t, err, "the stream is gone")
	assert.ErrorContains(t, err, "cannot stop")
}
