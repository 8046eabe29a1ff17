package app

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

type fakeQueue struct {
	floor, inherited mq.Position
	err              error
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
