package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/wire"
)

// maxRounds bounds how often a publish to a full queue makes room and tries
// again.
const maxRounds = 8

// Publish implements mq.Broker.
func (b *Broker) Publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	if err := b.enter(); err != nil {
		return mq.Position{}, err
	}
	defer b.leave()
	start := time.Now()
	pos, err := b.publish(ctx, c)
	b.metrics.published(err, time.Since(start))
	if err != nil {
		return mq.Position{}, fmt.Errorf("publish to table %q of tenant %s: %w", c.Table, c.Tenant, err)
	}
	return pos, nil
}

func (b *Broker) publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	subject, h := wire.Ingest(c.Topic), wire.EncodeChunk(&c)
	size := wire.Size(subject, h, c.Body)
	if size > mq.MaxChunkBytes {
		return mq.Position{}, fmt.Errorf("%w: %d bytes, at most %d", mq.ErrTooLarge, size, mq.MaxChunkBytes)
	}
	if err := b.space.full(int64(size)); err != nil {
		return mq.Position{}, err
	}
	q := b.queue(c.Tenant)
	if err := q.openForPublish(ctx); err != nil {
		return mq.Position{}, err
	}
	c = wire.Canonical(c)
	for round := 0; ; round++ {
		o := b.attempt(ctx, q, subject, h, c, int64(size))
		if o.err == nil {
			return q.position(o.seq), nil
		}
		if !errors.Is(o.err, mq.ErrFull) || round == maxRounds || !q.makeRoom(ctx) {
			return mq.Position{}, o.err
		}
	}
}

// openForPublish opens the queue; while that fails the tenant has no room.
func (q *queue) openForPublish(ctx context.Context) error {
	err := q.openIngest(ctx, false)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: the queue cannot be opened: %w", mq.ErrFull, err)
}

// attempt sends the chunk once and waits for its outcome.
func (b *Broker) attempt(ctx context.Context, q *queue, subject string, h nats.Header, c mq.Chunk, size int64) outcome {
	if err := q.flight.Acquire(ctx, size); err != nil {
		return outcome{err: fmt.Errorf("%w: %w", mq.ErrUnavailable, err)}
	}
	e := &pending{queue: q, chunk: &c, size: size}
	if err := b.send(ctx, subject, h, c.Body, e); err != nil {
		q.flight.Release(size)
		return outcome{err: err}
	}
	return e.await(ctx, b.o.PublishTimeout)
}

// send passes the gate, which is closed while the streams are reopened.
func (b *Broker) send(ctx context.Context, subject string, h nats.Header, body []byte, e *pending) error {
	if b.reopening.Load() {
		return fmt.Errorf("%w: the store is being opened again", mq.ErrUnavailable)
	}
	b.gate.RLock()
	defer b.gate.RUnlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, context.Cause(ctx))
	}
	if err := b.pubs.send(subject, h, body, e); err != nil {
		return sendError(err)
	}
	return nil
}

// sendAll sends the messages of a batch; the answer to the last is e's. When
// it fails the server forgets those that it got.
func (b *Broker) sendAll(ctx context.Context, messages []*nats.Msg, e *pending) error {
	last := len(messages) - 1
	for _, m := range messages[:last] {
		if err := b.sendPart(m); err != nil {
			return err
		}
	}
	return b.send(ctx, messages[last].Subject, messages[last].Header, messages[last].Data, e)
}

func (b *Broker) sendPart(m *nats.Msg) error {
	b.gate.RLock()
	defer b.gate.RUnlock()
	if err := b.pubs.nc.PublishMsg(m); err != nil {
		return sendError(err)
	}
	return nil
}

// onAnswer sees every answer in the order of its stream, whether or not the
// publish still waits for it.
func (b *Broker) onAnswer(e *pending, o outcome) {
	e.queue.flight.Release(e.size)
	switch {
	case o.err != nil || e.chunk == nil:
	case o.duplicate:
		e.queue.found(o.seq)
	default:
		e.queue.arrived(o.seq, *e.chunk)
	}
}

// found takes note of a chunk that was stored by an earlier publish. When the
// answer to that one was lost, nobody has heard of the chunk so far.
func (q *queue) found(seq uint64) {
	q.mu.Lock()
	unheard := seq > q.last
	if unheard {
		q.last = seq
		if q.source != nil {
			q.source.wakeUp()
		}
	}
	q.mu.Unlock()
	if unheard {
		q.feedFound(seq)
	}
}

// arrived takes note of a chunk that is durable.
func (q *queue) arrived(seq uint64, c mq.Chunk) {
	q.mu.Lock()
	q.last = max(q.last, seq)
	epoch := q.epoch
	if q.source != nil {
		q.source.publishedLocked(seq, c)
	}
	q.mu.Unlock()
	q.feed(epoch, seq, c)
}
