package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/wire"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// parkBatch and parkBatchBytes bound the letters that become durable together,
// all or none, with one sync of the disk. The server takes at most 1,000.
const (
	parkBatch      = 1000
	parkBatchBytes = 8 << 20
)

// letterOverhead is what the stream adds to a message.
const letterOverhead = 64

// Park implements mq.Broker. When it fails some letters may be stored.
func (b *Broker) Park(ctx context.Context, letters ...mq.DeadLetter) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	byTenant := map[tenant.ID][]mq.DeadLetter{}
	for _, l := range letters {
		byTenant[l.Tenant] = append(byTenant[l.Tenant], l)
	}
	var errs []error
	for t, own := range byTenant {
		if err := b.queue(t).park(ctx, own); err != nil {
			errs = append(errs, fmt.Errorf("park %d rows of tenant %s: %w", len(own), t, err))
		}
	}
	return errors.Join(errs...)
}

func (q *queue) park(ctx context.Context, letters []mq.DeadLetter) error {
	if err := q.b.space.full(0); err != nil {
		return err
	}
	if err := q.openLetters(ctx, false); err != nil {
		return fmt.Errorf("%w: the dead letters cannot be opened: %w", mq.ErrFull, err)
	}
	select {
	case q.letters.turn <- struct{}{}:
		defer func() { <-q.letters.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, context.Cause(ctx))
	}
	before, err := q.b.link.info(ctx, letterStream(q.tenant))
	if err != nil {
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
	}
	if err := q.roomFor(letters, before.State.Bytes); err != nil {
		return err
	}
	parked, err := q.storeLetters(ctx, letters)
	q.b.metrics.parked.WithLabelValues(string(q.tenant)).Add(float64(parked))
	q.countDropped(ctx, before.State.Msgs+uint64(parked))
	return err
}

// roomFor refuses letters that ask to push nothing out and would.
func (q *queue) roomFor(letters []mq.DeadLetter, taken uint64) error {
	if !slices.ContainsFunc(letters, func(l mq.DeadLetter) bool { return l.KeepOlder }) {
		return nil
	}
	_, most := q.caps()
	size := int64(taken)
	for i := range letters {
		l := &letters[i]
		size += int64(wire.Size(wire.DeadLetters(l.Topic), wire.EncodeLetter(l), l.Row)) + letterOverhead
	}
	if size > most {
		return fmt.Errorf("%w: the dead letters take %d bytes of %d, and %d rows do not fit", mq.ErrFull, taken, most, len(letters))
	}
	return nil
}

// storeLetters stores letters in batches, one after the other.
func (q *queue) storeLetters(ctx context.Context, letters []mq.DeadLetter) (parked int, err error) {
	for len(letters) > 0 {
		batch, err := q.nextBatch(letters)
		if err != nil {
			return parked, err
		}
		if err := q.storeBatch(ctx, batch); err != nil {
			return parked, err
		}
		parked += len(batch.messages)
		letters = letters[len(batch.messages):]
	}
	return parked, nil
}

// letterBatch is letters that are stored all or none.
type letterBatch struct {
	messages []*nats.Msg
	size     int64
}

// nextBatch encodes the letters of the next batch, at least one.
func (q *queue) nextBatch(letters []mq.DeadLetter) (letterBatch, error) {
	var b letterBatch
	_, most := q.caps()
	for i := range letters[:min(parkBatch, len(letters))] {
		l := &letters[i]
		if l.At.IsZero() {
			l.At = q.b.o.Now()
		}
		subject, h := wire.DeadLetters(l.Topic), wire.EncodeLetter(l)
		size := int64(wire.Size(subject, h, l.Row)) + letterOverhead
		if size > most {
			if i > 0 {
				break // those before it are stored first
			}
			return b, fmt.Errorf("%w: a dead letter of %d bytes, their share is %d", mq.ErrFull, size, most)
		}
		if i > 0 && b.size+size > parkBatchBytes {
			break
		}
		b.size += size
		b.messages = append(b.messages, &nats.Msg{Subject: subject, Header: h, Data: l.Row})
	}
	b.mark()
	return b, nil
}

// Headers of a batch that the server stores as one.
const (
	headerBatch       = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// mark makes one batch of several messages.
func (b *letterBatch) mark() {
	if len(b.messages) < 2 {
		return
	}
	id := rand.Text()
	for i, m := range b.messages {
		m.Header[headerBatch] = []string{id}
		m.Header[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
	}
	b.messages[len(b.messages)-1].Header[headerBatchCommit] = []string{"1"}
}

// storeBatch sends a batch, whose last message is answered for all of them.
func (q *queue) storeBatch(ctx context.Context, b letterBatch) error {
	if err := q.flight.Acquire(ctx, b.size); err != nil {
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
	}
	e := &pending{queue: q, size: b.size}
	if err := q.b.sendAll(ctx, b.messages, e); err != nil {
		q.flight.Release(b.size)
		return err
	}
	return e.await(ctx, q.b.o.PublishTimeout).err
}

// countDropped reports how many letters the stream dropped to stay within its
// budget: want is what it would hold otherwise.
func (q *queue) countDropped(ctx context.Context, want uint64) {
	info, err := q.b.link.info(context.WithoutCancel(ctx), letterStream(q.tenant))
	if err != nil || info.State.Msgs >= want {
		return
	}
	n := want - info.State.Msgs
	q.b.metrics.dropped.WithLabelValues(string(q.tenant)).Add(float64(n))
	q.log.Warn("dead letters are full: the oldest are dropped", "dropped", n, "kept", info.State.Msgs,
		"budget", info.Config.MaxBytes, "at", q.b.o.Now().UTC().Format(time.RFC3339))
}
