package mq

import (
	"context"
	"time"
)

// Viewer is whom a feed is shown to. Neither function may block.
type Viewer struct {
	// Chunk gets every chunk that is published, once it is durable, each
	// topic's in their order.
	Chunk func(Chunk, Position)
	// Hole tells that the feed missed chunks, between those that it shows
	// before and after. Who needs them asks the history.
	Hole func(Hole)
}

// Hole is what a feed did not show: anything after From up to Until, of the
// topics that these positions compare with.
type Hole struct {
	From, Until Position
	// Gone says that history lacks it too.
	Gone bool
}

// Feed is a live subscription to chunks.
type Feed interface {
	// Close ends the feed; no call of the viewer is running when it returns.
	Close()
}

// Feeder shows chunks as they arrive.
type Feeder interface {
	// Feed shows what is published from now on, whoever published it.
	Feed(ctx context.Context, v Viewer) (Feed, error)
}

// Reasons of a ReplayGap.
const (
	// GapRetention: what is asked for was removed.
	GapRetention = "retention"
	// GapReset: the position is of a queue that is gone.
	GapReset = "reset"
)

// ReplayGap says that chunks between a replay's start and First are gone.
type ReplayGap struct {
	// Reason is GapRetention or GapReset.
	Reason string
	// First is the first position still kept; zero when nothing is.
	First Position
}

func (g *ReplayGap) Error() string { return "history is gone: " + g.Reason }

// History reads what is stored. Positions are of the topic's queue, which it
// may share with others.
type History interface {
	// Replay calls handle with the topic's chunks after position from, up to
	// and including until, in order, at handle's pace. When chunks of the topic
	// after from are gone, or may be, or from is of another queue, handle is not called and the
	// error is a *ReplayGap: replay again from just before its First. When
	// that is found on the way the error is the same, after the chunks before
	// the gap.
	Replay(ctx context.Context, t Topic, from, until Position, handle func(Chunk, Position) error) error
	// Tail returns the position of the newest chunk of the topic's queue, zero
	// when there is none.
	Tail(ctx context.Context, t Topic) (Position, error)
	// FirstKept returns the first position that the topic's queue keeps when
	// some before it were removed, zero when all are kept. Of a queue that keeps
	// nothing it is that of the next chunk.
	FirstKept(ctx context.Context, t Topic) (Position, error)
	// PositionAt returns a position that no chunk of the topic received at or
	// after at comes before: a Replay from it starts there, or a little
	// earlier.
	PositionAt(ctx context.Context, t Topic, at time.Time) (Position, error)
}
