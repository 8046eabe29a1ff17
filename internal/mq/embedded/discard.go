package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/wire"
)

// Discard implements mq.DeadLetterStore.
func (s *letterStore) Discard(ctx context.Context, ids ...string) (int, error) {
	q, ctx, done, err := s.use(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	if q == nil {
		return 0, nil
	}
	epoch, err := s.epoch(ctx)
	if err != nil {
		return 0, err
	}
	return q.discarding(ctx, func(stream jetstream.Stream) (int, error) {
		return q.discard(ctx, stream, epoch, ids)
	})
}

// DiscardThrough implements mq.DeadLetterStore.
func (s *letterStore) DiscardThrough(ctx context.Context, table, id string) (int, error) {
	q, ctx, done, err := s.use(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	of, seq, ok := parseLetterID(id)
	if q == nil || !ok {
		return 0, nil
	}
	epoch, err := s.epoch(ctx)
	if err != nil || of != epoch {
		return 0, err
	}
	return q.discarding(ctx, func(stream jetstream.Stream) (int, error) {
		return q.discardThrough(ctx, stream, mq.Topic{Tenant: s.t, Table: table}, seq)
	})
}

// discarding runs remove while no other letter comes or goes, so that what the
// stream drops by itself can be told apart.
func (q *queue) discarding(ctx context.Context, remove func(jetstream.Stream) (int, error)) (n int, err error) {
	n, err = q.turned(ctx, remove)
	q.b.metrics.discarded.WithLabelValues(string(q.tenant)).Add(float64(n))
	if n > 0 && q.asked() != q.current() {
		_ = q.applyBudget(ctx, false) // logged; the letters are discarded
	}
	return n, err
}

func (q *queue) turned(ctx context.Context, remove func(jetstream.Stream) (int, error)) (int, error) {
	select {
	case q.letters.turn <- struct{}{}:
		defer func() { <-q.letters.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	stream, err := q.b.link.js.Stream(ctx, letterStream(q.tenant))
	if err != nil {
		return 0, fmt.Errorf("discard dead letters: %w", err)
	}
	return remove(stream)
}

func (q *queue) discard(ctx context.Context, stream jetstream.Stream, epoch uint64, ids []string) (n int, err error) {
	for _, id := range ids {
		of, seq, ok := parseLetterID(id)
		if !ok || of != epoch {
			continue
		}
		switch err := stream.DeleteMsg(ctx, seq); {
		case err == nil:
			n++
		case q.hasLetter(ctx, seq):
			return n, fmt.Errorf("discard dead letter %s: %w", id, err)
		}
	}
	return n, nil
}

// discardThrough purges the table's letters up to seq in one go.
func (q *queue) discardThrough(ctx context.Context, stream jetstream.Stream, t mq.Topic, seq uint64) (int, error) {
	before, err := q.count(ctx, t)
	if err != nil || before == 0 {
		return 0, err
	}
	bound, cancel := context.WithTimeout(ctx, 12*apiTimeout)
	defer cancel()
	failed := stream.Purge(bound, jetstream.WithPurgeSubject(wire.DeadLetters(t)), jetstream.WithPurgeSequence(seq+1))
	after, err := q.count(context.WithoutCancel(ctx), t)
	switch {
	case failed != nil && err == nil:
		return int(before - after), fmt.Errorf("discard dead letters: %w", failed)
	case err != nil:
		return 0, errors.Join(failed, err)
	}
	return int(before - after), nil
}

// count counts one table's letters.
func (q *queue) count(ctx context.Context, t mq.Topic) (uint64, error) {
	subject := wire.DeadLetters(t)
	info, err := q.b.link.info(ctx, letterStream(t.Tenant), jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return info.State.Subjects[subject], nil
}

// hasLetter tells a letter that is gone from one that could not be deleted.
func (q *queue) hasLetter(ctx context.Context, seq uint64) bool {
	_, err := q.b.reads.one(ctx, letterStream(q.tenant), seq)
	return !errors.Is(err, errNoMessage)
}
