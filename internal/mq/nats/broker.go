// Package nats is the broker on an operator's NATS cluster. The operator owns
// every stream, durable and bucket (the topology of package topology); the broker
// verifies them and creates nothing but consumers on histories that expire.
//
// A topic lies in one partition and one shard of it. Chunks are published into
// the partition and delivered through the shard's durable, to the one process
// that owns the shard. The partition's history, a mirror with the same sequence
// numbers, feeds streams and replays.
package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/mq/nats/link"
)

var _ mq.Broker = (*Broker)(nil)

// Broker is the mq.Broker on an operator's cluster.
type Broker struct {
	o    Options
	log  *slog.Logger
	life *lifetime.Life
	// pub is for publishing, so that no read of old data ever stands before a
	// publish; api for everything else.
	pub, api *client.Conn
	js       natsjs.JetStream
	pubs     *jetstream.Publisher
	letters  *jetstream.Letters
	parts    []*partition
	watch    *watch
	feeds    *feeds
	budgets  *budgets
	metrics  *metrics
	tasks    sync.WaitGroup
	// self tells this broker from all others.
	self string

	mu       sync.Mutex
	consumer *consumption
	terms    uint64
}

// New connects and verifies the topology, for as long as Options.TopologyWait.
// The error wraps mq.ErrUnavailable when the cluster was not reached, and is a
// *topology.Error when it is not as it must be. Close ends what it started.
func New(ctx context.Context, o Options) (*Broker, error) {
	o = o.withDefaults()
	b := &Broker{o: o, log: o.Logger, life: lifetime.New(mq.ErrClosed), self: rand.Text()}
	b.feeds, b.budgets = &feeds{b: b}, newBudgets(b)
	for n := range o.Partitions {
		b.parts = append(b.parts, newPartition(b, n))
	}
	b.watch = newWatch(b)
	if err := b.start(ctx); err != nil {
		_ = b.life.Close()
		_ = b.life.End(ctx)
		b.release()
		return nil, fmt.Errorf("open the queue on NATS: %w", err)
	}
	return b, nil
}

func (b *Broker) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.TopologyWait)
	defer cancel()
	lost := link.Handlers{Lost: func() { b.disconnected() }}
	if b.pub, err = link.Dial(ctx, b.o.Link, "wavehouse-publish", b.log, lost); err != nil {
		return err
	}
	back := link.Handlers{Back: func() { b.reconnected() }}
	if b.api, err = link.Dial(ctx, b.o.Link, "wavehouse", b.log, back); err != nil {
		return err
	}
	if b.js, err = natsjs.New(b.api, natsjs.WithDefaultTimeout(jetstream.APITimeout)); err != nil {
		return err
	}
	if b.pubs, err = jetstream.NewPublisher(b.pub); err != nil {
		return err
	}
	reads, err := jetstream.NewReader(b.api)
	if err != nil {
		return err
	}
	b.letters = jetstream.NewLetters(jetstream.LettersOptions{
		JS: b.js, Reads: reads, Send: b.pubs, Stream: b.o.Names.DeadLetters(), Prefix: b.o.Names.LettersPrefix(), Shared: true,
		MaxPayload: b.pub.MaxPayload, Timeout: b.o.PublishTimeout, Now: time.Now, Log: b.log,
	})
	if err := b.watch.begin(ctx); err != nil {
		return err
	}
	if b.metrics, err = newMetrics(b, b.o.Registerer); err != nil {
		return err
	}
	b.tasks.Go(func() { b.watch.run(b.life.Context()) })
	b.tasks.Go(func() { b.watch.follow(b.life.Context()) })
	b.tasks.Go(func() { b.budgets.run(b.life.Context()) })
	return nil
}

// disconnected gives up on answers, which are lost with the connection.
func (b *Broker) disconnected() {
	if b.pubs != nil {
		b.pubs.Fail(fmt.Errorf("%w: the connection was lost", mq.ErrOutcomeUnknown))
	}
}

// reconnected has whoever waits for the cluster ask again.
func (b *Broker) reconnected() {
	b.mu.Lock()
	c := b.consumer
	b.mu.Unlock()
	if c != nil {
		c.pullAgain()
	}
	b.watch.soon()
}

func (b *Broker) release() {
	for _, nc := range []*client.Conn{b.pub, b.api} {
		if nc != nil {
			nc.Close()
		}
	}
}

// Full implements mq.Broker. Whether a partition is full is known to the cluster.
func (b *Broker) Full() error {
	if !b.pub.IsConnected() {
		err := fmt.Errorf("%w: there is no connection to the NATS cluster", mq.ErrUnavailable)
		if last := b.o.Link.Advised(b.pub.LastError()); last != nil {
			err = fmt.Errorf("%w: %w", err, last)
		}
		return err
	}
	for _, p := range b.parts {
		for s := range b.o.Shards {
			if p.covers(s) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: the NATS cluster has no durable of any shard", mq.ErrUnavailable)
}

// Close ends deliveries and feeds, hands back what is not acknowledged, waits for
// publishes under way until ctx ends, and disconnects. Consumptions that were not
// stopped fail with mq.ErrClosed.
func (b *Broker) Close(ctx context.Context) error {
	if err := b.life.Close(); err != nil {
		return err
	}
	b.mu.Lock()
	c := b.consumer
	b.mu.Unlock()
	var errs []error
	if c != nil {
		errs = append(errs, c.end(ctx, mq.ErrClosed))
		c.handBack()
	}
	b.feeds.closeAll()
	errs = append(errs, b.life.End(ctx))
	b.tasks.Wait()
	b.pubs.Fail(fmt.Errorf("%w: %w", mq.ErrOutcomeUnknown, mq.ErrClosed))
	b.release()
	b.metrics.Unregister()
	return errors.Join(errs...)
}
