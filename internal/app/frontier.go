package app

import (
	"context"

	"github.com/wavehouse/wavehouse/internal/api"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// acknowledger is a queue whose acknowledgements can be asked for.
type acknowledger interface {
	Acknowledged(ctx context.Context, t tenant.ID) (floor, inherited mq.Position, err error)
}

// frontiers knows how far a table's rows are in ClickHouse, from the worker,
// which knows each table, and from the queue, which remembers over restarts.
type frontiers struct {
	queue    acknowledger
	progress func(mq.Topic) insert.Progress
}

// Frontier implements api.Frontiers. The worker is asked first: what it
// settles meanwhile can only move the queue's answer up to what is written.
func (f frontiers) Frontier(ctx context.Context, t mq.Topic) (api.Frontier, error) {
	p := f.progress(t)
	floor, inherited, err := f.queue.Acknowledged(ctx, t.Tenant)
	if err != nil {
		return api.Frontier{}, err
	}
	at := p.Frontier
	if order, ok := at.Compare(floor); !ok || order < 0 {
		at = floor
	}
	// What a former process left unacknowledged, it may have written.
	return api.Frontier{Position: at, Quiet: p.Quiet && !at.Before(inherited), Writes: p.Writes}, nil
}

// newFrontiers is nil for a queue that cannot be asked.
func (a *App) newFrontiers() api.Frontiers {
	queue, ok := a.broker.(acknowledger)
	if !ok {
		return nil
	}
	return frontiers{queue: queue, progress: a.worker.Progress}
}
