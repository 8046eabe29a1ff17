package api

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// looks answers with one frontier after the other, and the last for ever.
type looks struct {
	frontiers []notice.Progress
	err       error
}

func (l *looks) Frontier(context.Context, mq.Topic) (notice.Progress, error) {
	f := l.frontiers[0]
	if len(l.frontiers) > 1 {
		l.frontiers = l.frontiers[1:]
	}
	return f, l.err
}

func (l *looks) Through(context.Context, mq.Topic) (at time.Time) { return at }

func joining(l *looks) *Server { return &Server{Options: Options{Frontiers: l}} }

// Time stands still but for who waits.
func TestAQueryWaitsForAnInsertUnderWay(t *testing.T) { synctest.Test(t, queryWaits) }

func queryWaits(t *testing.T) {
	quiet := notice.Progress{Frontier: mq.NewPosition(1, 9), Quiet: true}
	f, err := joining(&looks{frontiers: []notice.Progress{{}, {}, quiet}}).awaitQuiet(t.Context(), mq.Topic{})
	require.NoError(t, err)
	assert.Equal(t, quiet, f)
}

func TestAQueryDoesNotWaitForLong(t *testing.T) {
	busy := notice.Progress{Frontier: mq.NewPosition(1, 9)}
	f, err := joining(&looks{frontiers: []notice.Progress{busy}}).awaitQuiet(t.Context(), mq.Topic{})
	require.NoError(t, err)
	assert.Equal(t, busy, f, "it goes on with what it has")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = joining(&looks{frontiers: []notice.Progress{busy}}).awaitQuiet(gone, mq.Topic{})
	require.ErrorIs(t, err, context.Canceled)
	broken := errors.New("broken")
	_, err = joining(&looks{frontiers: []notice.Progress{busy}, err: broken}).awaitQuiet(t.Context(), mq.Topic{})
	require.ErrorIs(t, err, broken)
}

func TestWhoAsksForAPosition(t *testing.T) {
	server := joining(&looks{frontiers: []notice.Progress{{}}})
	asks := func(s *Server, values ...string) (bool, error) {
		return s.wantsPosition(&request{query: url.Values{"position": values}})
	}
	for value, want := range map[string]bool{"": false, "0": false, "false": false, "1": true, "true": true} {
		got, err := asks(server, value)
		require.NoError(t, err)
		assert.Equal(t, want, got, value)
	}
	_, err := asks(server, "yes")
	require.ErrorContains(t, err, "position must be 1 or 0")
	_, err = asks(server, "1", "1")
	require.ErrorContains(t, err, "more than once")
	_, err = asks(&Server{}, "1")
	require.ErrorContains(t, err, "no position is known")
}
