package fairshare

import (
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

func TestBudgetBoundsOneTenant(t *testing.T) {
	b := New(10, 100, 0)
	require.True(t, b.Try(birch, 10))
	assert.False(t, b.Try(birch, 1), "over the tenant's share")
	assert.True(t, b.Try(cedar, 10), "another tenant has its own")
	b.Release(birch, 10)
	assert.True(t, b.Try(birch, 1))
	assert.EqualValues(t, 11, b.Held())
}

func TestBudgetNeverStarvesATenant(t *testing.T) {
	b := New(10, 20, 3)
	require.True(t, b.Try(birch, 10))
	require.True(t, b.Try(cedar, 10))
	assert.True(t, b.Try(maple, 2), "the floor does not depend on what others hold")
	assert.True(t, b.Try(maple, 1))
	assert.False(t, b.Try(maple, 1), "beyond the floor the total counts")

	lone := New(10, 20, 0)
	assert.True(t, lone.Try(birch, 500), "a single item larger than any bound still passes")
	assert.False(t, lone.TryStrict(cedar, 1), "unless the total is strict")
}

func TestBudgetWaitersGoOnWhenRoomIsGivenBack(t *testing.T) {
	b := New(10, 100, 0)
	require.True(t, b.Try(birch, 10))
	done := make(chan bool, 1)
	go func() { done <- b.Wait(birch, 5, nil) }()
	require.Eventually(t, func() bool { return b.Pressed(birch) }, time.Second, time.Millisecond)
	assert.False(t, b.Pressed(cedar))
	b.Release(birch, 4)
	select {
	case <-done:
		t.Fatal("went on without room")
	case <-time.After(20 * time.Millisecond):
	}
	b.Release(birch, 1)
	assert.True(t, <-done)
	assert.False(t, b.Pressed(birch))
	assert.EqualValues(t, 10, b.Held())
}

func TestBudgetWaitEndsWithTheStop(t *testing.T) {
	b := New(10, 100, 0)
	require.True(t, b.Try(birch, 10))
	stop := make(chan struct{})
	done := make(chan bool, 1)
	go func() { done <- b.Wait(birch, 5, stop) }()
	close(stop)
	assert.False(t, <-done)
	assert.EqualValues(t, 10, b.Held())
}
