package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clocktest"
	"github.com/wavehouse/wavehouse/internal/memo"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

type fakeQueue struct {
	mq.History
	floor, inherited, tail mq.Position
	err                    error
	asked                  *int
}

func (q fakeQueue) Tail(context.Context, mq.Topic) (mq.Position, error) {
	if q.asked != nil {
		*q.asked++
	}
	return q.tail, q.err
}

func (q fakeQueue) Floor(context.Context, mq.Topic) (floor, inherited mq.Position, err error) {
	return q.floor, q.inherited, q.err
}

func TestFrontierIsTheBestThatIsKnown(t *testing.T) {
	at := func(epoch, seq uint64) mq.Position { return mq.NewPosition(epoch, seq) }
	for name, c := range map[string]struct {
		queue    fakeQueue
		progress notice.Progress
		want     notice.Progress
	}{
		"nothing was ever written":       {fakeQueue{}, notice.Progress{Quiet: true}, notice.Progress{Quiet: true}},
		"just started, all written":      {fakeQueue{floor: at(7, 9), inherited: at(7, 9)}, notice.Progress{Quiet: true}, notice.Progress{Frontier: at(7, 9), Quiet: true}},
		"just started, some unknown":     {fakeQueue{floor: at(7, 5), inherited: at(7, 9)}, notice.Progress{Quiet: true}, notice.Progress{Frontier: at(7, 5)}},
		"another table is stuck":         {fakeQueue{floor: at(7, 5), inherited: at(7, 1)}, notice.Progress{Frontier: at(7, 8), Quiet: true, Writes: 3}, notice.Progress{Frontier: at(7, 8), Quiet: true, Writes: 3}},
		"the queue is further":           {fakeQueue{floor: at(7, 9)}, notice.Progress{Frontier: at(7, 8), Quiet: true}, notice.Progress{Frontier: at(7, 9), Quiet: true}},
		"the worker knows another queue": {fakeQueue{floor: at(8, 1)}, notice.Progress{Frontier: at(7, 80), Quiet: true}, notice.Progress{Frontier: at(8, 1)}},
		"a write is under way":           {fakeQueue{floor: at(7, 9)}, notice.Progress{Frontier: at(7, 9), Writes: 4}, notice.Progress{Frontier: at(7, 9), Writes: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			f := frontiers{queue: c.queue, progress: func(context.Context, mq.Topic) (notice.Progress, error) { return c.progress, nil }}
			got, err := f.Frontier(t.Context(), mq.Topic{Tenant: tenant.Default, Table: "t"})
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	silent := func(context.Context, mq.Topic) (notice.Progress, error) {
		return notice.Progress{Quiet: true}, notice.ErrNoAnswer
	}
	got, err := frontiers{queue: fakeQueue{floor: at(7, 9)}, progress: silent}.Frontier(t.Context(), mq.Topic{})
	require.NoError(t, err)
	assert.Equal(t, notice.Progress{Frontier: at(7, 9)}, got, "without a worker's word a write may be under way")
	broken := errors.New("broken")
	_, err = frontiers{queue: fakeQueue{err: broken}, progress: silent}.Frontier(t.Context(), mq.Topic{})
	require.ErrorIs(t, err, broken)
}

func TestThroughIsWhatIsKnownForCertain(t *testing.T) {
	at := func(epoch, seq uint64) mq.Position { return mq.NewPosition(epoch, seq) }
	clock := clocktest.At(time.Unix(1_800_000_000, 0))
	earlier := clock.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		queue    fakeQueue
		progress notice.Progress
		silent   bool
		want     time.Time
	}{
		"nothing ever came":              {fakeQueue{}, notice.Progress{Quiet: true}, false, time.Time{}},
		"all is written":                 {fakeQueue{floor: at(7, 3), tail: at(7, 9)}, notice.Progress{Frontier: at(7, 9), Since: earlier}, false, clock.Now()},
		"just started, all written":      {fakeQueue{floor: at(7, 9), tail: at(7, 9)}, notice.Progress{}, false, clock.Now()},
		"just started, some is not":      {fakeQueue{floor: at(7, 5), tail: at(7, 9)}, notice.Progress{}, false, time.Time{}},
		"some waits":                     {fakeQueue{floor: at(7, 5), tail: at(7, 9)}, notice.Progress{Frontier: at(7, 8), Since: earlier}, false, earlier},
		"the worker knows another queue": {fakeQueue{floor: at(8, 1), tail: at(8, 2)}, notice.Progress{Frontier: at(7, 80), Since: earlier}, false, time.Time{}},
		"nobody answers":                 {fakeQueue{floor: at(7, 5), tail: at(7, 9)}, notice.Progress{Since: earlier}, true, time.Time{}},
		"the queue cannot be asked":      {fakeQueue{err: errors.New("broken"), tail: at(7, 9)}, notice.Progress{Frontier: at(7, 9)}, false, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := frontiers{queue: c.queue, history: c.queue, now: clock.Now, progress: func(context.Context, mq.Topic) (notice.Progress, error) {
				if c.silent {
					return c.progress, notice.ErrNoAnswer
				}
				return c.progress, nil
			}}
			assert.Equal(t, c.want, f.Through(t.Context(), mq.Topic{Tenant: tenant.Default, Table: "t"}))
		})
	}
}

// A queue elsewhere is asked once a second about a table.
func TestThroughOfASharedQueueIsRemembered(t *testing.T) {
	clock, asked := clocktest.At(time.Unix(1_800_000_000, 0)), 0
	queue := fakeQueue{floor: mq.NewPosition(7, 9), tail: mq.NewPosition(7, 9), asked: &asked}
	f := frontiers{
		queue: queue, history: queue, now: clock.Now, known: memo.New[mq.Topic, found](10),
		progress: func(context.Context, mq.Topic) (notice.Progress, error) { return notice.Progress{}, notice.ErrNoAnswer },
	}
	start := clock.Now()
	for range 3 {
		assert.Equal(t, start, f.Through(t.Context(), mq.Topic{Table: "t"}))
		clock.Pass(300 * time.Millisecond)
	}
	assert.Equal(t, 1, asked)
	clock.Pass(time.Second)
	assert.Equal(t, clock.Now(), f.Through(t.Context(), mq.Topic{Table: "t"}))
	f.Through(t.Context(), mq.Topic{Table: "another"})
	assert.Equal(t, 3, asked)
}
