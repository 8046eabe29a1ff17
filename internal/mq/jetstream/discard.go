package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// PurgeTimeout bounds the removal of many messages.
const PurgeTimeout = 12 * APITimeout

// Discard implements mq.DeadLetterStore.
func (l *Letters) Discard(ctx context.Context, ids ...string) (n int, err error) {
	epoch, err := l.epoch(ctx)
	if err != nil {
		return 0, err
	}
	return l.removing(ctx, func(stream jetstream.Stream) (n int, err error) {
		for _, id := range ids {
			of, seq, ok := parseLetterID(id)
			if !ok || of != epoch {
				continue
			}
			switch err := stream.DeleteMsg(ctx, seq); {
			case err == nil:
				n++
			case l.has(ctx, seq):
				return n, fmt.Errorf("discard dead letter %s: %w", id, err)
			}
		}
		return n, nil
	})
}

// DiscardThrough implements mq.DeadLetterStore for a topic: it purges in one
// go.
func (l *Letters) DiscardThrough(ctx context.Context, t mq.Topic, id string) (int, error) {
	seq, _, err := l.find(ctx, id)
	if err != nil || seq == 0 {
		return 0, err
	}
	subject := Subject(l.Prefix, t)
	return l.removing(ctx, func(stream jetstream.Stream) (int, error) {
		before, err := l.count(ctx, subject)
		if err != nil || before == 0 {
			return 0, err
		}
		bound, cancel := context.WithTimeout(ctx, PurgeTimeout)
		defer cancel()
		failed := stream.Purge(bound, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(seq+1))
		after, err := l.count(context.WithoutCancel(ctx), subject)
		switch {
		case failed != nil && err == nil:
			return int(before - after), fmt.Errorf("discard dead letters: %w", failed)
		case err != nil:
			return 0, errors.Join(failed, err)
		}
		return int(before - after), nil
	})
}

func (l *Letters) removing(ctx context.Context, remove func(jetstream.Stream) (int, error)) (n int, err error) {
	err = l.Alone(ctx, func() error {
		stream, err := l.JS.Stream(ctx, l.Stream)
		if err != nil {
			return fmt.Errorf("discard dead letters: %w", err)
		}
		n, err = remove(stream)
		return err
	})
	return n, err
}

// count counts the letters of one subject.
func (l *Letters) count(ctx context.Context, subject string) (uint64, error) {
	info, err := Info(ctx, l.JS, l.Stream, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return info.State.Subjects[subject], nil
}

// has tells a letter that is gone from one that could not be deleted.
func (l *Letters) has(ctx context.Context, seq uint64) bool {
	_, err := l.Reads.One(ctx, l.Stream, seq)
	return !errors.Is(err, ErrNoMessage)
}
