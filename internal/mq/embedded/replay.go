package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// Replay implements mq.History.
func (b *Broker) Replay(ctx context.Context, t mq.Topic, from, until mq.Position, handle func(mq.Chunk, mq.Position) error) error {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
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
	return &mq.ReplayGap{Reason: mq.GapReset}
}

func (q *queue) replay(ctx context.Context, t mq.Topic, from, until mq.Position, handle func(mq.Chunk, mq.Position) error) error {
	epoch, after, last, err := q.replayRange(t, from, until)
	if err != nil {
		return err
	}
	whole := func(next uint64) error { return q.gapAt(t, epoch, next) }
	return q.b.reads.Replay(ctx, ingestStream(q.tenant), jetstream.Subject(ingestSubjects, t), after+1, last, whole,
		func(m *jetstream.Stored) error {
			return handle(jetstream.DecodeChunk(m.Subject, m.Header, m.Data), mq.NewPosition(epoch, m.Seq))
		})
}

// replayRange checks both ends against what is kept.
func (q *queue) replayRange(t mq.Topic, from, until mq.Position) (epoch, after, last uint64, err error) {
	of, after := mq.SplitPosition(from)
	untilOf, to := mq.SplitPosition(until)
	epoch, last = q.stands()
	last = min(to, last)
	if (!from.IsZero() && of != epoch) || (!until.IsZero() && untilOf != epoch) {
		return 0, 0, 0, &mq.ReplayGap{Reason: mq.GapReset, First: q.firstKept()}
	}
	if gap := q.gapAt(t, epoch, after+1); gap != nil && after < last {
		return 0, 0, 0, gap
	}
	return epoch, after, last, nil
}

// gapAt says whether what the table has from next on is no longer whole.
func (q *queue) gapAt(t mq.Topic, epoch, next uint64) error {
	q.mu.Lock()
	same, first := q.epoch == epoch, q.wholeLocked()
	q.mu.Unlock()
	switch {
	case !same:
		return &mq.ReplayGap{Reason: mq.GapReset, First: q.firstKept()}
	case next < first && q.traffic.among(t.Table, next, first):
		return &mq.ReplayGap{Reason: mq.GapRetention, First: q.firstKept()}
	}
	return nil
}

// firstKept is the oldest position kept, zero when the stream is empty.
func (q *queue) firstKept() mq.Position {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.firstKeptLocked()
}

func (q *queue) firstKeptLocked() mq.Position {
	first := q.wholeLocked()
	if first > q.last {
		return mq.Position{}
	}
	return mq.NewPosition(q.epoch, first)
}

// Tail implements mq.History.
func (b *Broker) Tail(ctx context.Context, t mq.Topic) (tail mq.Position, err error) {
	err = b.lookOpen(ctx, t, func(q *queue) {
		if q.last > 0 {
			tail = mq.NewPosition(q.epoch, q.last)
		}
	})
	return tail, err
}

// FirstKept implements mq.History.
func (b *Broker) FirstKept(ctx context.Context, t mq.Topic) (first mq.Position, err error) {
	err = b.lookOpen(ctx, t, func(q *queue) {
		if whole := q.wholeLocked(); whole > 1 {
			first = mq.NewPosition(q.epoch, whole)
		}
	})
	return first, err
}

// lookOpen is look that fails for a queue that cannot be opened.
func (b *Broker) lookOpen(ctx context.Context, t mq.Topic, do func(*queue)) error {
	if q, ok := b.known(t.Tenant); ok && q.ingest.failure() != nil {
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, q.ingest.failure())
	}
	return b.look(ctx, t, do)
}

// PositionAt implements mq.History. Chunks are found by the time they were
// stored, which is never before they were received.
func (b *Broker) PositionAt(ctx context.Context, t mq.Topic, at time.Time) (mq.Position, error) {
	var epoch, last uint64
	if err := b.lookOpen(ctx, t, func(q *queue) { epoch, last = q.epoch, q.last }); err != nil || epoch == 0 {
		return mq.Position{}, err
	}
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return mq.Position{}, err
	}
	defer done()
	m, err := b.reads.Since(ctx, ingestStream(t.Tenant), at)
	if errors.Is(err, jetstream.ErrNoMessage) {
		return mq.NewPosition(epoch, last), nil
	}
	if err != nil {
		return mq.Position{}, fmt.Errorf("find position in queue of tenant %s: %w", t.Tenant, err)
	}
	return mq.NewPosition(epoch, m.Seq-1), nil
}
