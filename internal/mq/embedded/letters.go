package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Park implements mq.Letters.
func (b *Broker) Park(ctx context.Context, letters ...mq.DeadLetter) error {
	if err := b.life.Enter(); err != nil {
		return err
	}
	defer b.life.Leave()
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
		return fmt.Errorf("%w: the dead letters cannot be opened: %w", mq.ErrUnavailable, err)
	}
	parked, dropped, err := q.store.Park(ctx, letters)
	q.b.metrics.Parked.WithLabelValues(string(q.tenant)).Add(float64(parked))
	q.b.metrics.dropped.WithLabelValues(string(q.tenant)).Add(float64(dropped))
	if dropped > 0 {
		q.noteRemoved(ctx)
	}
	return err
}

// noteRemoved notes how many letters were removed, so that damage tells how many
// are lost.
func (q *queue) noteRemoved(ctx context.Context) {
	info, err := jetstream.Info(ctx, q.b.host.js, letterStream(q.tenant))
	if err != nil {
		q.log.Warn("how many dead letters were removed is not noted", "error", err)
		return
	}
	q.letterRemoved.reach(q, info.State.LastSeq-info.State.Msgs)
}

// letterStore reads one tenant's dead letters.
type letterStore struct {
	b *Broker
	t tenant.ID
}

// DeadLetters implements mq.Letters.
func (b *Broker) DeadLetters(t tenant.ID) (mq.DeadLetterStore, error) {
	if err := b.life.Enter(); err != nil {
		return nil, err
	}
	defer b.life.Leave()
	return &letterStore{b: b, t: t}, nil
}

// with calls do unless there are no letters.
func (s *letterStore) with(ctx context.Context, do func(context.Context, *queue) error) error {
	ctx, done, err := s.b.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	q, ok := s.b.known(s.t)
	switch {
	case !ok:
		return nil
	case q.letters.failure() != nil:
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, q.letters.failure())
	case !q.letters.open.Load():
		return nil
	}
	return do(ctx, q)
}

// reading calls do when the files may be read: the server gives up all of one that
// it finds damaged.
func (s *letterStore) reading(ctx context.Context, do func(context.Context, *queue) error) error {
	return s.with(ctx, func(ctx context.Context, q *queue) error {
		if s.b.noteHurt(q.files(true).Hurt()) {
			return fmt.Errorf("%w: the dead letters are damaged and are being repaired", mq.ErrUnavailable)
		}
		return do(ctx, q)
	})
}

// Counts implements mq.DeadLetterStore.
func (s *letterStore) Counts(ctx context.Context) (map[string]uint64, error) {
	counts := map[string]uint64{}
	err := s.with(ctx, func(ctx context.Context, q *queue) (err error) {
		counts, err = q.store.Counts(ctx, s.t)
		return err
	})
	return counts, err
}

// List implements mq.DeadLetterStore.
func (s *letterStore) List(ctx context.Context, table string, limit int, cursor string) (page mq.DeadLetterPage, err error) {
	if err := jetstream.CheckLimit(limit); err != nil {
		return page, err
	}
	err = s.reading(ctx, func(ctx context.Context, q *queue) error {
		page, err = q.store.List(ctx, mq.Topic{Tenant: s.t, Table: table}, limit, cursor)
		return err
	})
	return page, err
}

// Get implements mq.DeadLetterStore.
func (s *letterStore) Get(ctx context.Context, id string) (letter mq.DeadLetter, ok bool, err error) {
	err = s.reading(ctx, func(ctx context.Context, q *queue) error {
		letter, ok, err = q.store.Get(ctx, s.t, id)
		return err
	})
	return letter, ok, err
}

// Discard implements mq.DeadLetterStore.
func (s *letterStore) Discard(ctx context.Context, ids ...string) (int, error) {
	return s.discard(ctx, func(ctx context.Context, l *jetstream.Letters) (int, error) { return l.Discard(ctx, s.t, ids...) })
}

// DiscardThrough implements mq.DeadLetterStore.
func (s *letterStore) DiscardThrough(ctx context.Context, table, id string) (int, error) {
	return s.discard(ctx, func(ctx context.Context, l *jetstream.Letters) (int, error) {
		return l.DiscardThrough(ctx, mq.Topic{Tenant: s.t, Table: table}, id)
	})
}

// discard makes room, which a budget may have waited for.
func (s *letterStore) discard(ctx context.Context, remove func(context.Context, *jetstream.Letters) (int, error)) (n int, err error) {
	err = s.reading(ctx, func(ctx context.Context, q *queue) error {
		n, err = remove(ctx, q.store)
		s.b.metrics.Discarded.WithLabelValues(string(s.t)).Add(float64(n))
		if n > 0 {
			q.noteRemoved(ctx)
		}
		if n > 0 && q.budget.Load() != q.current() {
			_ = q.applyBudget(ctx, false) // logged; the letters are discarded
		}
		return err
	})
	return n, err
}
