package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// consumption is a running Consume: one source per tenant.
type consumption struct {
	b    *Broker
	work mq.Work
	// term tells it from others of this process.
	term    uint64
	ctx     context.Context
	cancel  context.CancelFunc
	sources sync.WaitGroup
	failed  chan error

	endOnce sync.Once
}

// AckWait implements mq.Consumer.
func (b *Broker) AckWait() time.Duration { return b.o.AckWait }

// Consume implements mq.Consumer. There is one consumption at a time. It ends
// with ctx as by Stop. Every tenant is a shard, which is never revoked.
func (b *Broker) Consume(ctx context.Context, w mq.Work) (mq.Consumption, error) {
	if err := b.life.Enter(); err != nil {
		return nil, err
	}
	defer b.life.Leave()
	c := &consumption{b: b, work: w, failed: make(chan error, 1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.consumer != nil {
		c.cancel()
		return nil, errors.New("the queue is consumed already")
	}
	b.consumer = c
	b.terms++
	c.term = b.terms
	for _, q := range b.queues {
		if q.ingest.open.Load() {
			c.attach(q)
		}
	}
	context.AfterFunc(ctx, func() { _ = c.Stop(context.Background()) })
	return c, nil
}

// attach starts delivery of a queue; the broker's mu is held, which keeps it
// from racing with the end.
func (c *consumption) attach(q *queue) {
	if c.ctx.Err() != nil {
		return
	}
	s := newSource(c, q)
	q.mu.Lock()
	if q.source != nil && q.source.c == c {
		q.mu.Unlock()
		return
	}
	q.source = s
	s.next = q.acked.Floor + 1
	q.waiting.reset(q.last)
	q.mu.Unlock()
	c.sources.Go(s.run)
}

// deliver starts delivery of a queue whose ingest stream was just opened. One
// that was never used has nothing to deliver, and costs no goroutine.
func (b *Broker) deliver(q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.consumer != nil {
		b.consumer.attach(q)
	}
}

// Shard implements mq.Consumption.
func (c *consumption) Shard(t mq.Topic) (mq.Shard, bool) { return c.shard(t.Tenant), true }

func (c *consumption) shard(t tenant.ID) mq.Shard { return mq.Shard{Name: string(t), Term: c.term} }

// Failed implements mq.Consumption.
func (c *consumption) Failed() <-chan error { return c.failed }

// Stop implements mq.Consumption.
func (c *consumption) Stop(ctx context.Context) error { return c.end(ctx, nil) }

// end stops delivery and waits for the handlers; with a cause it is reported
// on Failed unless the consumption had been stopped before.
func (c *consumption) end(ctx context.Context, cause error) error {
	c.endOnce.Do(func() {
		if cause != nil {
			c.failed <- cause
		}
		c.b.mu.Lock()
		c.cancel()
		c.b.mu.Unlock()
	})
	if err := lifetime.Wait(ctx, &c.sources); err != nil {
		return fmt.Errorf("stop delivery: %w", err)
	}
	c.b.mu.Lock()
	if c.b.consumer == c {
		c.b.consumer = nil
	}
	c.b.mu.Unlock()
	return nil
}

// Ack implements mq.Consumption.
func (c *consumption) Ack(ds ...mq.Delivery) error {
	if err := c.b.life.Enter(); err != nil {
		return err
	}
	defer c.b.life.Leave()
	type stream struct {
		q     *queue
		epoch uint64
	}
	seqs := map[stream][]uint64{}
	for _, d := range ds {
		own, ok := d.(*delivery)
		if !ok || own.source.q.b != c.b {
			return fmt.Errorf("acknowledge a delivery of another broker: %T", d)
		}
		key := stream{own.source.q, own.epoch}
		seqs[key] = append(seqs[key], own.seq)
	}
	var errs []error
	for s, list := range seqs {
		errs = append(errs, s.q.acknowledge(s.epoch, list))
	}
	return errors.Join(errs...)
}
