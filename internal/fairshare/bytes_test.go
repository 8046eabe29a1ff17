package fairshare

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	birch tenant.ID = "birch"
	cedar tenant.ID = "cedar"
	maple tenant.ID = "maple"
)

func TestATenantHoldsNoMoreThanItsShare(t *testing.T) {
	b := New(10, 100)
	require.True(t, b.Take(birch, 10))
	assert.False(t, b.Take(birch, 1))
	assert.True(t, b.Take(cedar, 10), "another tenant has its own")
	b.Give(birch, 10)
	assert.True(t, b.Take(birch, 1))
	assert.EqualValues(t, 11, b.Used())
}

// Tenants that take all they can get share, and one that comes later finds room.
func TestThereIsRoomForWhoHoldsNothing(t *testing.T) {
	const total, piece = 1200, 10
	b := New(total, total)
	greedy := []tenant.ID{birch, cedar, maple}
	for n := 1; n <= len(greedy); n++ {
		for range total {
			for _, id := range greedy[:n] {
				b.Take(id, piece)
			}
		}
		require.LessOrEqual(t, b.Used(), int64(total-total>>n+n*piece), "%d tenants", n)
		require.GreaterOrEqual(t, *b.held[greedy[n-1]], int64(piece))
	}
	require.True(t, b.Take("late", 100), "a large one too")
	require.False(t, b.Take("later", total), "but not more than there is")
	for _, id := range append(greedy, "late") {
		b.Give(id, *b.held[id])
	}
	require.Zero(t, b.Used())
	require.True(t, b.Take(birch, total), "alone, the first may have it all")
}

func TestWhoHoldsNothingIsNotRememberedForEver(t *testing.T) {
	b := New(1000, 1000)
	var ids []tenant.ID
	for i := range 3 * maxIdle {
		ids = append(ids, tenant.ID(strconv.Itoa(i)))
		require.True(t, b.Take(ids[i], 1))
	}
	for _, id := range ids {
		b.Give(id, 1)
	}
	require.Zero(t, b.Used())
	require.Len(t, b.held, maxIdle)
	for range 2 {
		require.True(t, b.Take("later", 1000))
		b.Give("later", 1000)
	}
	require.Len(t, b.held, maxIdle)
}

func TestTheFirstItemMayBeOfAnySize(t *testing.T) {
	b := New(10, 20)
	assert.False(t, b.Take(birch, 500))
	assert.True(t, b.TakeFirst(birch, 500))
	assert.True(t, b.TakeFirst(cedar, 1), "whatever others hold")
	assert.False(t, b.TakeFirst(cedar, 1), "the first one only")
}

func TestWhoWaitsGoesOnWhenRoomIsGivenBack(t *testing.T) {
	b := New(10, 100)
	require.True(t, b.Take(birch, 10))
	done := make(chan bool, 1)
	go func() { done <- b.Wait(birch, 5, nil) }()
	require.Eventually(t, func() bool { return b.Wanted(birch) }, time.Minute, time.Millisecond)
	assert.False(t, b.Wanted(cedar))
	b.Give(birch, 4)
	select {
	case <-done:
		t.Fatal("went on without room")
	case <-time.After(20 * time.Millisecond):
	}
	b.Give(birch, 1)
	assert.True(t, <-done)
	assert.False(t, b.Wanted(birch))
	assert.EqualValues(t, 10, b.Used())
}

func TestAWaitEndsWithTheStop(t *testing.T) {
	b := New(10, 100)
	require.True(t, b.Take(birch, 10))
	stop := make(chan struct{})
	done := make(chan bool, 1)
	go func() { done <- b.Wait(birch, 5, stop) }()
	close(stop)
	assert.False(t, <-done)
	assert.EqualValues(t, 10, b.Used())
}

func TestTakeWithinWaitsForRoom(t *testing.T) {
	b := New(100, 100)
	require.True(t, b.TakeWithin(t.Context(), "a", 60))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, b.TakeWithin(ended, "b", 50), "there is no room")
	require.False(t, b.TakeWithin(t.Context(), "b", 101), "there never will be")

	got := make(chan bool)
	for range 2 {
		go func() { got <- b.TakeWithin(t.Context(), "b", 50) }()
	}
	require.Eventually(t, func() bool { return queued(b) == 2 }, time.Minute, time.Millisecond)
	require.True(t, b.Take("c", 40), "who finds room does not wait behind others")
	b.Give("c", 40)
	require.Equal(t, 2, queued(b))
	b.Give("a", 60)
	require.True(t, <-got)
	require.EqualValues(t, 50, b.Used())
	require.Equal(t, 1, queued(b))
	b.Give("b", 50)
	require.True(t, <-got)
	b.Give("b", 50)
	require.Zero(t, b.Used())
}

func TestWhoStopsWaitingTakesNothing(t *testing.T) {
	b := New(10, 10)
	require.True(t, b.Take("a", 10))
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan bool)
	go func() { got <- b.TakeWithin(ctx, "b", 10) }()
	require.Eventually(t, func() bool { return queued(b) == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.False(t, <-got)
	b.Give("a", 10)
	require.Zero(t, b.Used())
	require.Zero(t, queued(b))
}

func TestThoseWhoWaitAreBounded(t *testing.T) {
	b := New(1, 1)
	require.True(t, b.Take("a", 1))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range maxQueue {
		all.Go(func() { b.TakeWithin(ctx, "b", 1) })
	}
	require.Eventually(t, func() bool { return queued(b) == maxQueue }, time.Minute, time.Millisecond)
	require.False(t, b.TakeWithin(ctx, "b", 1), "one too many does not wait")
	cancel()
	all.Wait()
}

func queued(b *Bytes) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}
