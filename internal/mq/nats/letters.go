package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Park implements mq.Letters. Tenants share the stream; each batch is of one.
func (b *Broker) Park(ctx context.Context, letters ...mq.DeadLetter) error {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	byTenant := map[tenant.ID][]mq.DeadLetter{}
	for _, l := range letters {
		byTenant[l.Tenant] = append(byTenant[l.Tenant], l)
	}
	var errs []error
	for t, own := range byTenant {
		parked, _, err := b.letters.Park(ctx, own)
		b.metrics.Parked.WithLabelValues(string(t)).Add(float64(parked))
		if err != nil {
			errs = append(errs, fmt.Errorf("park %d rows of tenant %s: %w", len(own), t, err))
		}
	}
	return errors.Join(errs...)
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

// Counts implements mq.DeadLetterStore.
func (s *letterStore) Counts(ctx context.Context) (map[string]uint64, error) {
	ctx, done, err := s.b.life.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.b.letters.Counts(ctx, s.t)
}

// List implements mq.DeadLetterStore.
func (s *letterStore) List(ctx context.Context, table string, limit int, cursor string) (mq.DeadLetterPage, error) {
	if err := jetstream.CheckLimit(limit); err != nil {
		return mq.DeadLetterPage{}, err
	}
	ctx, done, err := s.b.life.Begin(ctx)
	if err != nil {
		return mq.DeadLetterPage{}, err
	}
	defer done()
	return s.b.letters.List(ctx, mq.Topic{Tenant: s.t, Table: table}, limit, cursor)
}

// Get implements mq.DeadLetterStore.
func (s *letterStore) Get(ctx context.Context, id string) (mq.DeadLetter, bool, error) {
	ctx, done, err := s.b.life.Begin(ctx)
	if err != nil {
		return mq.DeadLetter{}, false, err
	}
	defer done()
	return s.b.letters.Get(ctx, s.t, id)
}

// Discard implements mq.DeadLetterStore.
func (s *letterStore) Discard(ctx context.Context, ids ...string) (int, error) {
	return s.discard(ctx, func(ctx context.Context) (int, error) { return s.b.letters.Discard(ctx, s.t, ids...) })
}

// DiscardThrough implements mq.DeadLetterStore.
func (s *letterStore) DiscardThrough(ctx context.Context, table, id string) (int, error) {
	return s.discard(ctx, func(ctx context.Context) (int, error) {
		return s.b.letters.DiscardThrough(ctx, mq.Topic{Tenant: s.t, Table: table}, id)
	})
}

func (s *letterStore) discard(ctx context.Context, do func(context.Context) (int, error)) (int, error) {
	ctx, done, err := s.b.life.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := do(ctx)
	s.b.metrics.Discarded.WithLabelValues(string(s.t)).Add(float64(n))
	return n, err
}
