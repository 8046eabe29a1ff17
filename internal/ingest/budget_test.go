package ingest

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
	b := newBudget(10, 100, 0)
	require.True(t, b.try(birch, 10))
	assert.False(t, b.try(birch, 1), "over the tenant's share")
	assert.True(t, b.try(cedar, 10), "another tenant has its own")
	b.release(birch, 10)
	assert.True(t, b.try(birch, 1))
	assert.EqualValues(t, 11, b.held())
}

func TestBudgetNeverStarvesATenant(t *testing.T) {
	b := newBudget(10, 20, 3)
	require.True(t, b.try(birch, 10))
	require.True(t, b.try(cedar, 10))
	assert.True(t, b.try(maple, 2), "the floor does not depend on what others hold")
	assert.True(t, b.try(maple, 1))
	assert.False(t, b.try(maple, 1), "beyond the floor the total counts")

	lone := newBudget(10, 20, 0)
	assert.True(t, lone.try(birch, 500), "a single item larger than any bound still passes")
	assert.False(t, lone.tryStrict(cedar, 1), "unless the total is strict")
}

func TestBudgetWaitersGoOnWhenRoomIsGivenBack(t *testing.T) {
	b := newBudget(10, 100, 0)
	require.True(t, b.try(birch, 10))
	done := make(chan bool, 1)
	go func() { done <- b.wait(birch, 5, nil) }()
	require.Eventually(t, func() bool { return b.pressed(birch) }, time.Second, time.Millisecond)
	assert.False(t, b.pressed(cedar))
	b.release(birch, 4)
	select {
	case <-done:
		t.Fatal("went on without room")
	case <-time.After(20 * time.Millisecond):
	}
	b.release(birch, 1)
	assert.True(t, <-done)
	assert.False(t, b.pressed(birch))
	assert.EqualValues(t, 10, b.held())
}

func TestBudgetWaitEndsWithTheStop(t *testing.T) {
	b := newBudget(10, 100, 0)
	require.True(t, b.try(birch, 10))
	stop := make(chan struct{})
	done := make(chan bool, 1)
	go func() { done <- b.wait(birch, 5, stop) }()
	close(stop)
	assert.False(t, <-done)
	assert.EqualValues(t, 10, b.held())
}
