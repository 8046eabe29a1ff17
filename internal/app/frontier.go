package app

import (
	"context"

	"github.com/wavehouse/wavehouse/internal/api"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// frontiers knows how far a table's rows are in ClickHouse, from its worker,
// which knows each table, and from the queue, which remembers over restarts.
type frontiers struct {
	queue    mq.Floors
	progress func(context.Context, mq.Topic) (notice.Progress, error)
}

// Frontier implements api.Frontiers. The worker is asked first: what it
// settles meanwhile can only move the queue's answer up to what is written.
// Without a worker's answer a write may be under way.
func (f frontiers) Frontier(ctx context.Context, t mq.Topic) (notice.Progress, error) {
	p, err := f.progress(ctx, t)
	if err != nil {
		p = notice.Progress{}
	}
	floor, inherited, err := f.queue.Floor(ctx, t)
	if err != nil {
		return notice.Progress{}, err
	}
	order, same := p.Frontier.Compare(floor)
	if !same || order < 0 {
		p.Frontier = floor
	}
	// What a former process left unacknowledged, it may have written, and so may
	// a worker that speaks of another queue.
	p.Quiet = p.Quiet && same && !p.Frontier.Before(inherited)
	return p, nil
}

// newFrontiers is nil for a queue that cannot be asked.
func (a *App) newFrontiers() api.Frontiers {
	queue, ok := a.queue.(mq.Floors)
	if !ok {
		return nil
	}
	return frontiers{queue: queue, progress: a.notices.Progress}
}

// floor is up to where a table's chunks are written or parked, as far as the
// queue knows.
func (a *App) floor(ctx context.Context, t mq.Topic) (mq.Position, error) {
	queue, ok := a.queue.(mq.Floors)
	if !ok {
		return mq.Position{}, nil
	}
	floor, _, err := queue.Floor(ctx, t)
	return floor, err
}
