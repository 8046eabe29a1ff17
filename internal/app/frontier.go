package app

import (
	"context"
	"time"

	"github.com/wavehouse/wavehouse/internal/api"
	"github.com/wavehouse/wavehouse/internal/memo"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// frontiers knows how far a table's rows are in ClickHouse, from its worker,
// which knows each table, and from the queue, which remembers over restarts.
type frontiers struct {
	queue    mq.Floors
	history  mq.History
	progress func(context.Context, mq.Topic) (notice.Progress, error)
	now      func() time.Time
	// known is what was found out lately, of a queue that is asked over the
	// network; nil for one in the process.
	known *memo.Memo[mq.Topic, found]
}

// found is the time through which rows were inserted, when that was asked.
type found struct{ through, asked time.Time }

const (
	// maxFound bounds the tables of which that is remembered, keepFound is for how
	// long, and throughTimeout bounds the question: an answer waits for it.
	maxFound       = 4096
	keepFound      = time.Second
	throughTimeout = 100 * time.Millisecond
)

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
	if !same {
		p.Since = time.Time{}
	}
	// What a former process left unacknowledged, it may have written, and so may
	// a worker that speaks of another queue.
	p.Quiet = p.Quiet && same && !p.Frontier.Before(inherited)
	return p, nil
}

// Through implements api.Frontiers.
func (f frontiers) Through(ctx context.Context, t mq.Topic) time.Time {
	now := f.now()
	if f.known == nil {
		return f.through(ctx, t, now)
	}
	last, known := f.known.Get(t)
	if age := now.Sub(last.asked); known && age >= 0 && age < keepFound {
		return last.through
	}
	ctx, cancel := context.WithTimeout(ctx, throughTimeout)
	defer cancel()
	last = found{f.through(ctx, t, now), now}
	f.known.Put(t, last)
	return last.through
}

// through looks for the end of the queue first: what is stored before now is not
// behind it.
func (f frontiers) through(ctx context.Context, t mq.Topic, now time.Time) time.Time {
	tail, err := f.history.Tail(ctx, t)
	if err != nil || tail.IsZero() {
		return time.Time{}
	}
	p, err := f.Frontier(ctx, t)
	if err != nil {
		return time.Time{}
	}
	if order, same := p.Frontier.Compare(tail); same && order >= 0 {
		return now
	}
	return p.Since
}

// newFrontiers is nil for a queue that cannot be asked.
func (a *App) newFrontiers() api.Frontiers {
	queue, ok := a.queue.(mq.Floors)
	if !ok {
		return nil
	}
	f := frontiers{queue: queue, history: a.queue, progress: a.notices.Progress, now: time.Now}
	if a.shared {
		f.known = memo.New[mq.Topic, found](maxFound)
	}
	return f
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
