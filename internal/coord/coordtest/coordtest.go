// Package coordtest is the conformance suite of coord.Coordinator.
package coordtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/coord"
)

// Run runs the suite; open returns a Coordinator that nobody else uses.
func Run(t *testing.T, open func(t *testing.T) coord.Coordinator) {
	for name, run := range map[string]func(*testing.T, coord.Coordinator){
		"run's error is returned": runError,
		"one holder at a time":    oneHolder,
		"tokens grow":             tokensGrow,
		"ended context":           endedContext,
		"context of run ends":     contextEnds,
		"members":                 members,
		"closed":                  closed,
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			t.Cleanup(func() {
				if err := c.Close(context.Background()); err != nil {
					require.ErrorIs(t, err, coord.ErrClosed)
				}
			})
			run(t, c)
		})
	}
}

func runError(t *testing.T, c coord.Coordinator) {
	want := errors.New("mine")
	require.ErrorIs(t, c.Elect(t.Context(), "a", func(context.Context, coord.Token) error { return want }), want)
	require.NoError(t, c.Elect(t.Context(), "a", func(ctx context.Context, _ coord.Token) error { return ctx.Err() }), "the lease was given up")
}

// tokensGrow: a holder's token is larger than those of all before it, so that
// what a former one still writes can be refused.
func tokensGrow(t *testing.T, c coord.Coordinator) {
	var mu sync.Mutex
	var seen []coord.Token
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range 4 {
				assert.NoError(t, c.Elect(t.Context(), "a", func(_ context.Context, token coord.Token) error {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, token)
					return nil
				}))
			}
		})
	}
	g.Wait()
	require.Len(t, seen, 32)
	require.NotZero(t, seen[0])
	for i := range seen[1:] {
		require.Less(t, seen[i], seen[i+1], "holder %d", i+1)
	}
}

func oneHolder(t *testing.T, c coord.Coordinator) {
	var holders, runs atomic.Int32
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			assert.NoError(t, c.Elect(t.Context(), "a", func(context.Context, coord.Token) error {
				assert.EqualValues(t, 1, holders.Add(1))
				time.Sleep(time.Millisecond) // room for a second holder to show
				holders.Add(-1)
				runs.Add(1)
				return nil
			}))
		})
	}
	g.Wait()
	require.EqualValues(t, 8, runs.Load())
	require.NoError(t, c.Elect(t.Context(), "a", func(ctx context.Context, _ coord.Token) error {
		return c.Elect(ctx, "b", func(context.Context, coord.Token) error { return nil })
	}), "another lease is another's")
}

func endedContext(t *testing.T, c coord.Coordinator) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.Elect(ctx, "a", func(context.Context, coord.Token) error { t.Error("ran"); return nil })
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Members(ctx, "g")
	require.ErrorIs(t, err, context.Canceled)
}

func contextEnds(t *testing.T, c coord.Coordinator) {
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Elect(ctx, "a", func(ctx context.Context, _ coord.Token) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
}

func members(t *testing.T, c coord.Coordinator) {
	ctx, cancel := context.WithCancel(t.Context())
	m, err := c.Members(ctx, "g")
	require.NoError(t, err)
	require.Contains(t, m.Members, m.Self)
	cancel()
	for range m.Changes {
		continue
	}
}

func closed(t *testing.T, c coord.Coordinator) {
	running, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Elect(t.Context(), "a", func(ctx context.Context, _ coord.Token) error {
			close(running)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	<-running
	m, err := c.Members(t.Context(), "g")
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, <-ended, coord.ErrClosed)
	_, open := <-m.Changes
	require.False(t, open)
	require.ErrorIs(t, c.Elect(t.Context(), "a", func(context.Context, coord.Token) error { return nil }), coord.ErrClosed)
	_, err = c.Members(t.Context(), "g")
	require.ErrorIs(t, err, coord.ErrClosed)
	require.ErrorIs(t, c.Close(t.Context()), coord.ErrClosed)
}
