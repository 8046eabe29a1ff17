package embedded

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/wire"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	maxPage      = 1000
	maxPageBytes = 8 << 20
)

// letterStore reads one tenant's dead letters. A letter's id is the stream's
// epoch and the letter's sequence, so that an id of a stream that is gone
// never names another letter.
type letterStore struct {
	b *Broker
	t tenant.ID
}

// DeadLetters implements mq.Broker.
func (b *Broker) DeadLetters(t tenant.ID) (mq.DeadLetterStore, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	return &letterStore{b: b, t: t}, nil
}

// use begins an operation; q is nil when there are no letters.
func (s *letterStore) use(ctx context.Context) (q *queue, bound context.Context, done func(), err error) {
	if err := s.b.enter(); err != nil {
		return nil, nil, nil, err
	}
	bound, cancel := s.b.bind(ctx)
	done = func() { cancel(); s.b.leave() }
	q, ok := s.b.known(s.t)
	switch {
	case !ok:
		return nil, bound, done, nil
	case q.letters.failure() != nil:
		done()
		return nil, nil, nil, fmt.Errorf("%w: %w", mq.ErrUnavailable, q.letters.failure())
	case !q.letters.open.Load():
		return nil, bound, done, nil
	}
	return q, bound, done, nil
}

// Counts implements mq.DeadLetterStore.
func (s *letterStore) Counts(ctx context.Context) (map[string]uint64, error) {
	q, ctx, done, err := s.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	counts := map[string]uint64{}
	if q == nil {
		return counts, nil
	}
	info, err := s.b.link.info(ctx, letterStream(s.t), jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	for subject, n := range info.State.Subjects {
		if t, ok := wire.ParseTopic(subject); ok {
			counts[t.Table] += n
		}
	}
	return counts, nil
}

// List implements mq.DeadLetterStore. A page ends early after 8 MiB of rows.
func (s *letterStore) List(ctx context.Context, table string, limit int, cursor string) (mq.DeadLetterPage, error) {
	if limit < 1 || limit > maxPage {
		return mq.DeadLetterPage{}, fmt.Errorf("list dead letters: limit %d: want 1 to %d", limit, maxPage)
	}
	q, ctx, done, err := s.use(ctx)
	if err != nil {
		return mq.DeadLetterPage{}, err
	}
	defer done()
	if q == nil {
		return mq.DeadLetterPage{}, nil
	}
	epoch, err := s.epoch(ctx)
	if err != nil {
		return mq.DeadLetterPage{}, err
	}
	after := uint64(0)
	if cursor != "" {
		of, seq, ok := parseLetterID(cursor)
		if !ok || of != epoch {
			return mq.DeadLetterPage{}, fmt.Errorf("list dead letters: %w: %q", mq.ErrBadCursor, cursor)
		}
		after = seq
	}
	return s.page(ctx, epoch, mq.Topic{Tenant: s.t, Table: table}, limit, after)
}

// page reads one letter more than asked for, to know whether there is a next
// page.
func (s *letterStore) page(ctx context.Context, epoch uint64, t mq.Topic, limit int, after uint64) (mq.DeadLetterPage, error) {
	var page mq.DeadLetterPage
	subject, bytes := wire.DeadLetters(t), 0
	for {
		msgs, err := s.b.reads.from(ctx, letterStream(s.t), subject, after+1, limit+1-len(page.Letters), readBytes)
		if errors.Is(err, errNoMessage) {
			return page, nil
		}
		if err != nil {
			return mq.DeadLetterPage{}, fmt.Errorf("list dead letters: %w", err)
		}
		for i := range msgs {
			if len(page.Letters) == limit || bytes > maxPageBytes {
				page.Next = letterID(epoch, after)
				return page, nil
			}
			after = msgs[i].seq
			bytes += len(msgs[i].data)
			page.Letters = append(page.Letters, letter(&msgs[i], epoch))
		}
	}
}

// Get implements mq.DeadLetterStore.
func (s *letterStore) Get(ctx context.Context, id string) (mq.DeadLetter, bool, error) {
	q, ctx, done, err := s.use(ctx)
	if err != nil {
		return mq.DeadLetter{}, false, err
	}
	defer done()
	of, seq, ok := parseLetterID(id)
	if q == nil || !ok {
		return mq.DeadLetter{}, false, nil
	}
	epoch, err := s.epoch(ctx)
	if err != nil || of != epoch {
		return mq.DeadLetter{}, false, err
	}
	m, err := s.b.reads.one(ctx, letterStream(s.t), seq)
	if errors.Is(err, errNoMessage) {
		return mq.DeadLetter{}, false, nil
	}
	if err != nil {
		return mq.DeadLetter{}, false, fmt.Errorf("read dead letter %s: %w", id, err)
	}
	return letter(&m, epoch), true, nil
}

func (s *letterStore) epoch(ctx context.Context) (uint64, error) {
	info, err := s.b.link.info(ctx, letterStream(s.t))
	if err != nil {
		return 0, fmt.Errorf("open dead letters: %w", err)
	}
	return uint64(info.Created.UnixNano()), nil
}

func letter(m *stored, epoch uint64) mq.DeadLetter {
	l := wire.DecodeLetter(m.subject, m.header, m.data)
	l.ID = letterID(epoch, m.seq)
	return l
}

func letterID(epoch, seq uint64) string {
	return strconv.FormatUint(epoch, 36) + "-" + strconv.FormatUint(seq, 10)
}

func parseLetterID(id string) (epoch, seq uint64, ok bool) {
	a, b, found := strings.Cut(id, "-")
	if !found {
		return 0, 0, false
	}
	epoch, err1 := strconv.ParseUint(a, 36, 64)
	seq, err2 := strconv.ParseUint(b, 10, 64)
	return epoch, seq, err1 == nil && err2 == nil && seq > 0
}
