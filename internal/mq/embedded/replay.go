package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Reasons of a mq.ReplayGap.
const (
	gapRetention = "retention"
	gapReset     = "reset"
)

// Replay implements mq.Broker. When history is purged while a replay reads it
// the error is a *mq.ReplayGap too, after the chunks before the gap.
func (b *Broker) Replay(ctx context.Context, t mq.Topic, from, until mq.Position, handle func(mq.Chunk, mq.Position) error) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	ctx, cancel := b.bind(ctx)
	defer cancel()
	q, ok := b.known(t.Tenant)
	if !ok || !q.ingest.open.Load() {
		return absent(q, from)
	}
	if err := q.replay(ctx, t, from, until, handle); err != nil {
		return fmt.Errorf("replay table %q of tenant %s: %w", t.Table, t.Tenant, err)
	}
	return nil
}

// absent answers for a queue that is not open: one that was never written has
// no history, so a position in it is of another.
func absent(q *queue, from mq.Position) error {
	if q != nil && q.ingest.failure() != nil {
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, q.ingest.failure())
	}
	if from.IsZero() {
		return nil
	}
	return &mq.ReplayGap{Reason: gapReset}
}

func (q *queue) replay(ctx context.Context, t mq.Topic, from, until mq.Position, handle func(mq.Chunk, mq.Position) error) error {
	epoch, after, last, err := q.replayRange(from, until)
	if err != nil {
		return err
	}
	whole := func(next uint64) error { return q.gapAt(epoch, next) }
	return q.b.reads.Replay(ctx, ingestStream(q.tenant), jetstream.Subject(ingestSubjects, t), after+1, last, whole,
		func(m *jetstream.Stored) error {
			return handle(jetstream.DecodeChunk(m.Subject, m.Header, m.Data), mq.NewPosition(epoch, m.Seq))
		})
}

// replayRange checks both ends against what is kept.
func (q *queue) replayRange(from, until mq.Position) (epoch, after, last uint64, err error) {
	of, after := mq.SplitPosition(from)
	untilOf, to := mq.SplitPosition(until)
	epoch, last = q.stands()
	last = min(to, last)
	if (!from.IsZero() && of != epoch) || (!until.IsZero() && untilOf != epoch) {
		return 0, 0, 0, &mq.ReplayGap{Reason: gapReset, First: q.firstKept()}
	}
	if gap := q.gapAt(epoch, after+1); gap != nil && after < last {
		return 0, 0, 0, gap
	}
	return epoch, after, last, nil
}

// gapAt says whether what begins at next is no longer whole.
func (q *queue) gapAt(epoch, next uint64) error {
	q.mu.Lock()
	same, first := q.epoch == epoch, q.first
	q.mu.Unlock()
	switch {
	case !same:
		return &mq.ReplayGap{Reason: gapReset, First: q.firstKept()}
	case next < first:
		return &mq.ReplayGap{Reason: gapRetention, First: q.firstKept()}
	}
	return nil
}

// firstKept is the oldest position kept, zero when the stream is empty.
func (q *queue) firstKept() mq.Position {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first > q.last {
		return mq.Position{}
	}
	return mq.NewPosition(q.epoch, max(q.first, 1))
}

// Tail implements mq.Broker.
func (b *Broker) Tail(ctx context.Context, t tenant.ID) (mq.Position, error) {
	if err := b.enter(); err != nil {
		return mq.Position{}, err
	}
	defer b.leave()
	q, ok := b.known(t)
	if !ok {
		return mq.Position{}, ctx.Err()
	}
	epoch, last := q.stands()
	if last == 0 {
		return mq.Position{}, ctx.Err()
	}
	return mq.NewPosition(epoch, last), ctx.Err()
}

// PositionAt implements mq.Broker. Chunks are found by the time they were
// stored, which is never before they were received: the position may come
// before a few chunks received earlier, never after one received later.
func (b *Broker) PositionAt(ctx context.Context, t tenant.ID, at time.Time) (mq.Position, error) {
	if err := b.enter(); err != nil {
		return mq.Position{}, err
	}
	defer b.leave()
	ctx, cancel := b.bind(ctx)
	defer cancel()
	q, ok := b.known(t)
	if !ok || !q.ingest.open.Load() {
		return mq.Position{}, ctx.Err()
	}
	epoch, last := q.stands()
	m, err := q.b.reads.Since(ctx, ingestStream(t), at)
	if errors.Is(err, jetstream.ErrNoMessage) {
		return mq.NewPosition(epoch, last), nil
	}
	if err != nil {
		return mq.Position{}, fmt.Errorf("find position in queue of tenant %s: %w", t, err)
	}
	return mq.NewPosition(epoch, m.Seq-1), nil
}
