package dedupe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errStore = errors.New("the store says no")

func TestAStoreThatFailsAgainAndAgainIsLeftAloneAndTriedAgain(t *testing.T) {
	g := NewGuard(time.Minute)
	asked := 0
	failing := func(context.Context) error { asked++; return errStore }
	for range tripAfter - 1 {
		require.ErrorIs(t, g.Do(t.Context(), failing), ErrUnavailable)
	}
	require.NoError(t, g.Do(t.Context(), func(context.Context) error { return nil }), "a success begins the count anew")
	for range tripAfter {
		require.False(t, tripped(g))
		require.ErrorIs(t, g.Do(t.Context(), failing), errStore)
	}
	require.True(t, tripped(g))
	before := asked
	err := g.Do(t.Context(), failing)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, errStore, "the cause is named")
	require.Equal(t, before, asked, "nobody was asked")

	require.ErrorIs(t, g.Force(t.Context(), failing), errStore)
	require.Equal(t, before+1, asked, "who forces it asks")
	before++

	// One call at a time finds out.
	g.probe = time.Now()
	require.ErrorIs(t, g.Do(t.Context(), func(ctx context.Context) error {
		require.ErrorIs(t, g.Do(ctx, failing), ErrUnavailable)
		return errStore
	}), errStore)
	require.Equal(t, before, asked)
	require.True(t, tripped(g))
	g.probe = time.Now()
	require.NoError(t, g.Do(t.Context(), func(context.Context) error { return nil }))
	require.False(t, tripped(g))
}

func TestACallerThatGivesUpBlamesNobody(t *testing.T) {
	g := NewGuard(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * tripAfter {
		require.ErrorIs(t, g.Do(ctx, func(ctx context.Context) error { return ctx.Err() }), context.Canceled)
	}
	require.False(t, tripped(g))
	g.timeout = time.Nanosecond
	err := g.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	require.ErrorIs(t, err, context.DeadlineExceeded, "a call is bounded")
}

func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	g := NewGuard(time.Minute)
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- g.Do(context.Background(), func(context.Context) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, g.Close(ctx))
	require.ErrorIs(t, g.Do(t.Context(), func(context.Context) error { return nil }), ErrUnavailable)
	close(leave)
	require.NoError(t, g.Close(t.Context()))
	require.NoError(t, g.Close(t.Context()))
	assert.NoError(t, <-left)
}

// tripped reports whether calls are refused unasked.
func tripped(g *Guard) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failures >= tripAfter
}
