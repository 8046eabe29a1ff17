package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/wire"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// parkBatch bounds the letters in flight, so that a failure leaves few whose
// outcome is unknown.
const parkBatch = 256

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
	parked, err := q.storeLetters(ctx, letters)
	q.b.metrics.parked.WithLabelValues(string(q.tenant)).Add(float64(parked))
	q.countDropped(ctx, before.State.Msgs+uint64(parked))
	return err
}

// storeLetters sends letters in batches and waits for each batch.
func (q *queue) storeLetters(ctx context.Context, letters []mq.DeadLetter) (parked int, err error) {
	for len(letters) > 0 {
		n := min(parkBatch, len(letters))
		stored, err := q.storeBatch(ctx, letters[:n])
		parked += stored
		if err != nil {
			return parked, err
		}
		letters = letters[n:]
	}
	return parked, nil
}

func (q *queue) storeBatch(ctx context.Context, letters []mq.DeadLetter) (stored int, err error) {
	var sent []*pending
	for i := range letters {
		e, sendErr := q.sendLetter(ctx, &letters[i])
		if sendErr != nil {
			err = sendErr
			break
		}
		sent = append(sent, e)
	}
	for _, e := range sent {
		o := e.await(ctx, q.b.o.PublishTimeout)
		if o.err == nil {
			stored++
		} else if err == nil {
			err = o.err
		}
	}
	return stored, err
}

func (q *queue) sendLetter(ctx context.Context, l *mq.DeadLetter) (*pending, error) {
	if l.At.IsZero() {
		l.At = q.b.o.Now()
	}
	subject, h := wire.DeadLetters(l.Topic), wire.EncodeLetter(l)
	size := int64(wire.Size(subject, h, l.Row))
	if _, most := q.caps(); size+letterOverhead > most {
		return nil, fmt.Errorf("%w: a dead letter of %d bytes, their share is %d", mq.ErrFull, size, most)
	}
	if err := q.flight.Acquire(ctx, size); err != nil {
		return nil, fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
	}
	e := &pending{queue: q, size: size}
	if err := q.b.send(ctx, subject, h, l.Row, e); err != nil {
		q.flight.Release(size)
		return nil, err
	}
	return e, nil
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
