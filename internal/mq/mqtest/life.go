package mqtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func lifeCases() []testCase {
	return []testCase{
		{name: "life/delivery that ends on its own fails once", run: failsOnce},
		{name: "life/stop is no failure", run: stopIsQuiet},
		{name: "life/stop waits for the handler", run: stopWaits},
		{name: "life/close while everything is busy", run: closeBusy},
		{name: "life/closed", run: closed},
	}
}

func failsOnce(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 3)
	in, c := consume(t, b)
	in.await(t, 3)
	require.NoError(t, b.Close(t.Context()))
	select {
	case err := <-c.Failed():
		require.ErrorIs(t, err, mq.ErrClosed)
	case <-time.After(patience):
		require.FailNow(t, "no failure was reported")
	}
	stop(t, c)
	select {
	case err, ok := <-c.Failed():
		require.FailNow(t, "a second failure", "%v %v", err, ok)
	default:
	}
}

func stopIsQuiet(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 3)
	in, c := consume(t, b)
	in.await(t, 3)
	stop(t, c)
	require.NoError(t, b.Close(t.Context()))
	select {
	case err, ok := <-c.Failed():
		require.FailNow(t, "a failure after Stop", "%v %v", err, ok)
	default:
	}
}

func stopWaits(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 3)
	inside, release := make(chan struct{}, 3), make(chan struct{})
	c, err := b.Consume(t.Context(), Work(func(mq.Delivery) { inside <- struct{}{}; <-release }))
	require.NoError(t, err)
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Stop(ctx), context.DeadlineExceeded)
	close(release)
	stop(t, c)
	require.Empty(t, inside, "a handler began after Stop")
}

// known says whether a busy caller may get err when the broker closes.
func known(err error) bool {
	for _, want := range []error{mq.ErrClosed, mq.ErrOutcomeUnknown, mq.ErrUnavailable, mq.ErrFull, context.Canceled} {
		if errors.Is(err, want) {
			return true
		}
	}
	return err == nil
}

func closeBusy(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "busy0", "t", 100)
	until, err := b.Tail(t.Context(), mq.Topic{Tenant: "busy0", Table: "t"})
	require.NoError(t, err)
	var c mq.Consumption
	started := make(chan struct{})
	c, err = b.Consume(t.Context(), Work(func(d mq.Delivery) {
		<-started
		if err := c.Ack(d); err != nil {
			assert.ErrorIs(t, err, mq.ErrClosed)
		}
	}))
	require.NoError(t, err)
	close(started)
	_, err = b.Feed(t.Context(), Viewing(func(mq.Chunk, mq.Position) {}))
	require.NoError(t, err)
	var mu sync.Mutex
	stored := map[tenant.ID]int{"busy0": 100}
	var busy sync.WaitGroup
	for w := range 6 {
		id := tenant.ID(fmt.Sprint("busy", w%3))
		busy.Go(func() {
			for n := 0; ; n++ {
				_, err := b.Publish(t.Context(), Chunk(id, "t", fmt.Sprint(w, n)))
				assert.True(t, known(err), "%v", err)
				if err != nil {
					return
				}
				mu.Lock()
				stored[id]++
				mu.Unlock()
			}
		})
	}
	busy.Go(func() {
		for {
			err := b.Replay(t.Context(), mq.Topic{Tenant: "busy0", Table: "t"}, mq.Position{}, until, func(mq.Chunk, mq.Position) error { return nil })
			assert.True(t, known(err), "%v", err)
			if err != nil {
				return
			}
		}
	})
	busy.Go(func() {
		for b.Park(t.Context(), Letter("busy1", "t", "row")) == nil {
			_ = b.Full()
		}
	})
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return stored["busy2"] > 20 }, "load")
	require.NoError(t, b.Close(t.Context()))
	busy.Wait()
	b = open(t, s)
	for id, n := range stored {
		require.GreaterOrEqual(t, len(all(t, b, mq.Topic{Tenant: id, Table: "t"})), n, "durable chunks of %s", id)
	}
}

func closed(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 1)
	in, c := consume(t, b)
	d := in.await(t, 1)[0]
	letters := lettersOf(t, b, "birch")
	feed, f := watch(t, b)
	require.NoError(t, b.Close(t.Context()))
	f.Close()
	require.Zero(t, feed.count())
	ctx := t.Context()
	_, err := b.Publish(ctx, Chunk("birch", "t", "x"))
	assert.ErrorIs(t, err, mq.ErrClosed)
	_, err = b.Consume(ctx, Work(func(mq.Delivery) {}))
	assert.ErrorIs(t, err, mq.ErrClosed)
	_, err = b.Feed(ctx, Viewing(func(mq.Chunk, mq.Position) {}))
	assert.ErrorIs(t, err, mq.ErrClosed)
	assert.ErrorIs(t, b.Replay(ctx, mq.Topic{}, mq.Position{}, mq.Position{}, never), mq.ErrClosed)
	_, err = b.Tail(ctx, mq.Topic{Tenant: "birch"})
	assert.ErrorIs(t, err, mq.ErrClosed)
	_, err = b.PositionAt(ctx, mq.Topic{Tenant: "birch"}, time.Now())
	assert.ErrorIs(t, err, mq.ErrClosed)
	assert.ErrorIs(t, b.Park(ctx, Letter("birch", "t", "x")), mq.ErrClosed)
	_, err = b.DeadLetters("birch")
	assert.ErrorIs(t, err, mq.ErrClosed)
	_, err = letters.Counts(ctx)
	assert.ErrorIs(t, err, mq.ErrClosed)
	_, err = b.FirstKept(ctx, mq.Topic{Tenant: "birch"})
	assert.ErrorIs(t, err, mq.ErrClosed)
	if own, ok := b.(mq.Budgets); ok {
		assert.ErrorIs(t, own.SetBudget(ctx, "birch", 1<<30), mq.ErrClosed)
	}
	if own, ok := b.(mq.Purger); ok {
		_, err = own.Purge(ctx, map[tenant.ID]time.Time{"birch": time.Now()})
		assert.ErrorIs(t, err, mq.ErrClosed)
		_, err = own.TenantStatus(ctx, "birch")
		assert.ErrorIs(t, err, mq.ErrClosed)
	}
	assert.ErrorIs(t, c.Ack(d), mq.ErrClosed)
	assert.ErrorIs(t, b.Close(ctx), mq.ErrClosed)
}
