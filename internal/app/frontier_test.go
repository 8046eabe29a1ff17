package app

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/api"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

type fakeQueue struct {
	floor, inherited mq.Position
	err              error
}

func (q fakeQueue) Acknowledged(context.Context, tenant.ID) (floor, inherited mq.Position, err error) {
	return q.floor, q.inherited, q.err
}

func TestFrontierIsTheBestThatIsKnown(t *testing.T) {
	at := func(epoch, seq uint64) mq.Position { return mq.NewPosition(epoch, seq) }
	for name, c := range map[string]struct {
		queue    fakeQueue
		progress insert.Progress
		want     api.Frontier
	}{
		"nothing was ever written":      {fakeQueue{}, insert.Progress{Quiet: true}, api.Frontier{Quiet: true}},
		"just started, all written":     {fakeQueue{floor: at(7, 9), inherited: at(7, 9)}, insert.Progress{Quiet: true}, api.Frontier{Position: at(7, 9), Quiet: true}},
		"just started, some unknown":    {fakeQueue{floor: at(7, 5), inherited: at(7, 9)}, insert.Progress{Quiet: true}, api.Frontier{Position: at(7, 5)}},
		"another table is stuck":        {fakeQueue{floor: at(7, 5), inherited: at(7, 1)}, insert.Progress{Frontier: at(7, 8), Quiet: true, Writes: 3}, api.Frontier{Position: at(7, 8), Quiet: true, Writes: 3}},
		"the queue is further":          {fakeQueue{floor: at(7, 9)}, insert.Progress{Frontier: at(7, 8), Quiet: true}, api.Frontier{Position: at(7, 9), Quiet: true}},
		"the worker knows an old queue": {fakeQueue{floor: at(8, 1)}, insert.Progress{Frontier: at(7, 80), Quiet: true}, api.Frontier{Position: at(8, 1), Quiet: true}},
		"a write is under way":          {fakeQueue{floor: at(7, 9)}, insert.Progress{Frontier: at(7, 9), Writes: 4}, api.Frontier{Position: at(7, 9), Writes: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			f := frontiers{queue: c.queue, progress: func(mq.Topic) insert.Progress { return c.progress }}
			got, err := f.Frontier(t.Context(), mq.Topic{Tenant: tenant.Default, Table: "t"})
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	broken := errors.New("broken")
	_, err := frontiers{queue: fakeQueue{err: broken}, progress: func(mq.Topic) insert.Progress { return insert.Progress{} }}.
		Frontier(t.Context(), mq.Topic{})
	require.ErrorIs(t, err, broken)
}
