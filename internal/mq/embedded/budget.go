package embedded

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// SetBudget implements mq.Budgets. A queue that could not be opened is tried
// again at once. A budget whose tenth is less than the dead letters take is
// not applied: the queue keeps its former one, the error wraps
// mq.ErrBudgetNotApplied, and it is tried again when letters are discarded.
func (b *Broker) SetBudget(ctx context.Context, t tenant.ID, bytes int64) error {
	if err := b.life.Enter(); err != nil {
		return err
	}
	defer b.life.Leave()
	if bytes <= 0 {
		return fmt.Errorf("queue budget of tenant %s: %d bytes: want more than 0", t, bytes)
	}
	if q, ok := b.ask(t, bytes); ok {
		return q.applyBudget(ctx, true)
	}
	return nil
}

// ask notes the budget for the tenant's queue, or for when there is one.
func (b *Broker) ask(t tenant.ID, bytes int64) (*queue, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[t]
	if ok {
		q.budget.Store(bytes)
	} else {
		b.asked[t] = bytes
	}
	return q, ok
}

// budgetAsked is the budget of a tenant that has no queue yet, 0 when none was set.
func (b *Broker) budgetAsked(t tenant.ID) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[t]
}

// applyBudget gives both streams the budget asked for, as far as they are
// open, or leaves both as they are. With retry streams that failed to open
// are opened.
func (q *queue) applyBudget(ctx context.Context, retry bool) error {
	if retry {
		if err := q.reopenFailed(ctx); err != nil {
			return err
		}
	}
	if !q.ingest.open.Load() && !q.letters.open.Load() {
		return nil // remembered until one is
	}
	select {
	case q.ingest.turn <- struct{}{}:
		defer func() { <-q.ingest.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	bytes := q.budget.Load()
	if err := q.resize(context.WithoutCancel(ctx), bytes); err != nil {
		q.log.Warn("queue budget is not applied", "asked", bytes, "applied", q.current(), "error", err)
		return fmt.Errorf("%w: tenant %s, %d bytes: %w", mq.ErrBudgetNotApplied, q.tenant, bytes, err)
	}
	return nil
}

func (q *queue) reopenFailed(ctx context.Context) error {
	var errs []error
	if q.ingest.failure() != nil {
		errs = append(errs, q.openIngest(ctx, true))
	}
	if q.letters.failure() != nil {
		errs = append(errs, q.openLetters(ctx, true))
	}
	return errors.Join(errs...)
}

// resize updates the dead-letter stream first, as it may have to refuse, and
// takes that back when the ingest stream fails. ingest.turn is held.
func (q *queue) resize(ctx context.Context, bytes int64) error {
	cfg := letterConfig(q.tenant, bytes)
	before, err := q.resizeLetters(ctx, cfg)
	if err != nil {
		return err
	}
	if q.ingest.open.Load() && q.applied.Load() != bytes {
		if err := q.b.host.update(ctx, ingestConfig(q.tenant, bytes, q.b.o.DuplicateWindow)); err != nil {
			cfg.MaxBytes = before
			_, failed := q.resizeLetters(ctx, cfg)
			return errors.Join(err, failed)
		}
	}
	q.applied.Store(bytes)
	return nil
}

// resizeLetters resizes the dead-letter stream if it is open, and returns what
// it had before.
func (q *queue) resizeLetters(ctx context.Context, cfg natsjs.StreamConfig) (before int64, err error) {
	if !q.letters.open.Load() {
		return 0, nil
	}
	err = q.store.Alone(ctx, func() error {
		info, err := jetstream.Info(ctx, q.b.host.js, cfg.Name)
		if err != nil {
			return err
		}
		before = info.Config.MaxBytes
		switch {
		case before == cfg.MaxBytes:
			return nil
		case info.State.Bytes > uint64(cfg.MaxBytes):
			return fmt.Errorf("dead letters take %d bytes, their share would be %d", info.State.Bytes, cfg.MaxBytes)
		}
		return q.b.host.update(ctx, cfg)
	})
	return before, err
}

// update changes a stream's configuration.
func (h *host) update(ctx context.Context, cfg natsjs.StreamConfig) error {
	ctx, cancel := context.WithTimeout(ctx, jetstream.APITimeout)
	defer cancel()
	if _, err := h.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("resize stream %s: %w", cfg.Name, err)
	}
	return nil
}
