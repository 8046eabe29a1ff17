package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// PurgeTimeout bounds the removal of many messages.
const PurgeTimeout = 12 * APITimeout

// Discard implements mq.DeadLetterStore for a tenant.
func (l *Letters) Discard(ctx context.Context, t tenant.ID, ids ...string) (n int, err error) {
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
			if ours, err := l.ours(ctx, t, seq); err != nil {
				return n, fmt.Errorf("discard dead letter %s: %w", id, err)
			} else if !ours {
				continue
			}
			one, err := l.remove(ctx, stream, seq)
			n += one
			if err != nil {
				return n, fmt.Errorf("discard dead letter %s: %w", id, err)
			}
		}
		return n, nil
	})
}

// ours reports whether a letter is the tenant's: in a stream of its own every one
// is.
func (l *Letters) ours(ctx context.Context, t tenant.ID, seq uint64) (bool, error) {
	if !l.Shared {
		return true, nil
	}
	m, err := l.Reads.One(ctx, l.Stream, seq)
	if errors.Is(err, ErrNoMessage) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	topic, ok := ParseTopic(m.Subject)
	return ok && topic.Tenant == t, nil
}

// remove deletes one message and counts it, unless it is gone already.
func (l *Letters) remove(ctx context.Context, stream jetstream.Stream, seq uint64) (int, error) {
	switch err := stream.DeleteMsg(ctx, seq); {
	case err == nil:
		return 1, nil
	case !strings.Contains(err.Error(), "no message found") && l.has(ctx, seq):
		return 0, err
	}
	return 0, nil
}

// DiscardThrough implements mq.DeadLetterStore for a topic: it purges in one go,
// but where the stream is shared.
func (l *Letters) DiscardThrough(ctx context.Context, t mq.Topic, id string) (int, error) {
	seq, _, err := l.find(ctx, id)
	if err != nil || seq == 0 {
		return 0, err
	}
	subject := Subject(l.Prefix, t)
	if l.Shared {
		return l.discardEach(ctx, subject, seq)
	}
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

// discarders is how many deletions of one call are under way.
const discarders = 32

// discardEach deletes a subject's letters up to a sequence, one by one.
func (l *Letters) discardEach(ctx context.Context, subject string, last uint64) (int, error) {
	var n atomic.Int64
	_, err := l.removing(ctx, func(stream jetstream.Stream) (int, error) {
		for next := uint64(1); next <= last; {
			msgs, err := l.Reads.From(ctx, l.Stream, subject, next, ReadBatch, ReadBytes)
			if errors.Is(err, ErrNoMessage) {
				return 0, nil
			}
			if err != nil {
				return 0, fmt.Errorf("discard dead letters: %w", err)
			}
			group, bound := errgroup.WithContext(ctx)
			group.SetLimit(discarders)
			for _, m := range msgs {
				if next = m.Seq + 1; m.Seq <= last {
					group.Go(func() error {
						one, err := l.remove(bound, stream, m.Seq)
						n.Add(int64(one))
						return err
					})
				}
			}
			if err := group.Wait(); err != nil {
				return 0, fmt.Errorf("discard dead letters: %w", err)
			}
		}
		return 0, nil
	})
	return int(n.Load()), err
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
