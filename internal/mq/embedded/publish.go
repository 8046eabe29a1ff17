package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// maxRounds bounds how often a publish to a full queue makes room and tries
// again.
const maxRounds = 8

// MaxChunkBytes implements mq.Publisher.
func (b *Broker) MaxChunkBytes() int { return jetstream.MaxChunk(maxPayload) }

// DuplicateWindow implements mq.Publisher.
func (b *Broker) DuplicateWindow() time.Duration { return b.o.DuplicateWindow }

// Publish implements mq.Publisher.
func (b *Broker) Publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	if err := b.life.Enter(); err != nil {
		return mq.Position{}, err
	}
	defer b.life.Leave()
	start := time.Now()
	pos, err := b.publish(ctx, c)
	b.metrics.Published(err, time.Since(start))
	if err != nil {
		return mq.Position{}, fmt.Errorf("publish to table %q of tenant %s: %w", c.Table, c.Tenant, err)
	}
	return pos, nil
}

func (b *Broker) publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	subject, h := jetstream.Subject(ingestSubjects, c.Topic), jetstream.EncodeChunk(&c)
	size := jetstream.Size(subject, h, c.Body)
	if most := b.MaxChunkBytes(); size > most {
		return mq.Position{}, fmt.Errorf("%w: %d bytes, at most %d", mq.ErrTooLarge, size, most)
	}
	if err := b.space.full(int64(size)); err != nil {
		return mq.Position{}, err
	}
	q := b.queue(c.Tenant)
	if err := q.openForPublish(ctx); err != nil {
		return mq.Position{}, err
	}
	if err := q.full(&c); err != nil {
		return mq.Position{}, err
	}
	c = jetstream.Canonical(c)
	for round := 0; ; round++ {
		o := b.attempt(ctx, q, subject, h, c, int64(size))
		if o.Err == nil {
			// The newest that is stored, so that one write serves many publishes.
			_, last := q.stands()
			q.ingestMark.reach(q, max(last, o.Seq))
			return q.position(o.Seq), nil
		}
		if !errors.Is(o.Err, mq.ErrFull) || round == maxRounds || !q.makeRoom(ctx) {
			return mq.Position{}, o.Err
		}
	}
}

// openForPublish opens the queue; while that fails the tenant has none.
func (q *queue) openForPublish(ctx context.Context) error {
	if err := q.openIngest(ctx, false); err != nil {
		return fmt.Errorf("%w: it cannot be opened: %w", mq.ErrUnavailable, err)
	}
	return nil
}

// sent is a chunk on its way to the stream.
type sent struct {
	jetstream.Pending
	queue *queue
	chunk mq.Chunk
	// size is the share of what the queue may have in flight that it holds.
	size int64
}

// attempt sends the chunk once and waits for its outcome.
func (b *Broker) attempt(ctx context.Context, q *queue, subject string, h nats.Header, c mq.Chunk, size int64) jetstream.Outcome {
	if err := q.inFlight.Acquire(ctx, size); err != nil {
		return jetstream.Outcome{Err: fmt.Errorf("%w: %w", mq.ErrUnavailable, err)}
	}
	e := &sent{queue: q, chunk: c, size: size}
	e.Pending = jetstream.NewPending(ingestStream(q.tenant), e)
	if err := b.gated().Send(ctx, &nats.Msg{Subject: subject, Header: h, Data: c.Body}, &e.Pending); err != nil {
		q.inFlight.Release(size)
		return jetstream.Outcome{Err: err}
	}
	return e.Await(ctx, b.o.PublishTimeout)
}

// Answered implements jetstream.Owner.
func (e *sent) Answered(o jetstream.Outcome) {
	e.queue.inFlight.Release(e.size)
	switch {
	case o.Err != nil:
	case o.Duplicate:
		e.queue.found(o.Seq, &e.chunk)
	default:
		e.queue.arrived(o.Seq, e.chunk)
	}
}

// gated is a publisher behind the broker's gate, which is closed while the
// streams are reopened.
type gated struct{ b *Broker }

func (b *Broker) gated() gated { return gated{b} }

// Send implements jetstream.Sender.
func (g gated) Send(ctx context.Context, m *nats.Msg, e *jetstream.Pending) error {
	if err := g.b.refused(); err != nil {
		return err
	}
	if g.b.reopening.Load() {
		return fmt.Errorf("%w: the store is being opened again", mq.ErrUnavailable)
	}
	g.b.gate.RLock()
	defer g.b.gate.RUnlock()
	if err := g.b.refused(); err != nil {
		return err
	}
	return g.b.pubs.Send(ctx, m, e)
}

// SendPart implements jetstream.Sender.
func (g gated) SendPart(m *nats.Msg) error {
	g.b.gate.RLock()
	defer g.b.gate.RUnlock()
	return g.b.pubs.SendPart(m)
}

// found takes note of a chunk that was stored by an earlier publish. When the
// answer to that one was lost, nobody has heard of the chunk so far.
func (q *queue) found(seq uint64, c *mq.Chunk) {
	q.mu.Lock()
	unheard := seq > q.last
	if unheard {
		q.last = seq
		q.waiting.arrived(seq, c)
		if q.source != nil {
			q.source.wakeUp()
		}
	}
	q.mu.Unlock()
	if unheard {
		q.traffic.forget(seq)
		q.feedFound(seq)
	}
}

// arrived takes note of a chunk that is durable.
func (q *queue) arrived(seq uint64, c mq.Chunk) {
	q.mu.Lock()
	q.last = max(q.last, seq)
	q.waiting.arrived(seq, &c)
	epoch := q.epoch
	q.traffic.note(c.Table, seq, q.b.o.Now())
	if q.source != nil {
		q.source.publishedLocked(seq, c)
	}
	q.mu.Unlock()
	q.feed(epoch, seq, c)
}
