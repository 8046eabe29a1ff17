package insert

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBackoffIsInactiveUntilSomethingFails(t *testing.T) {
	t.Parallel()
	b := newBackoff(time.Second, 30*time.Second)
	assert.Equal(t, passed, b.enter(nil, nil))
	_, on := b.waiting()
	assert.False(t, on)
}

func TestBackoffWindowsStayInBoundsAndGrow(t *testing.T) {
	t.Parallel()
	b := newBackoff(time.Second, 30*time.Second)
	var longest time.Duration
	for n := range 60 {
		b.failures = n + 1
		d := b.draw()
		assert.GreaterOrEqual(t, d, time.Second)
		assert.LessOrEqual(t, d, min(30*time.Second, time.Second<<min(n, 10)))
		longest = max(longest, d)
	}
	assert.Greater(t, longest, 4*time.Second, "windows never grew")
}

func TestBackoffLetsOneProbeThroughPerWindow(t *testing.T) {
	t.Parallel()
	b := newBackoff(10*time.Millisecond, 10*time.Millisecond)
	b.fail()
	results := make(chan pass, 3)
	stop := make(chan struct{})
	for range 3 {
		go func() { results <- b.enter(stop, nil) }()
	}
	require.Equal(t, passed, <-results)
	select {
	case <-results:
		t.Fatal("a second probe went out before the first was judged")
	case <-time.After(50 * time.Millisecond):
	}
	b.succeed()
	assert.Equal(t, passed, <-results)
	assert.Equal(t, passed, <-results)
}

func TestBackoffReleasedProbeIsTakenByAnother(t *testing.T) {
	t.Parallel()
	b := newBackoff(time.Millisecond, time.Millisecond)
	b.fail()
	require.Equal(t, passed, b.enter(nil, nil))
	other := make(chan pass, 1)
	go func() { other <- b.enter(nil, nil) }()
	b.release()
	assert.Equal(t, passed, <-other)
}

func TestBackoffFailuresOfOneWindowCountOnce(t *testing.T) {
	t.Parallel()
	b := newBackoff(time.Hour, time.Hour)
	b.fail()
	b.fail()
	assert.Equal(t, 1, b.failures)
	left, on := b.waiting()
	assert.True(t, on)
	assert.Greater(t, left, 59*time.Minute)
}

func TestBackoffWaitEndsEarly(t *testing.T) {
	t.Parallel()
	b := newBackoff(time.Hour, time.Hour)
	b.fail()
	closed := make(chan struct{})
	close(closed)
	assert.Equal(t, passStop, b.enter(closed, nil))
	assert.Equal(t, passGiveUp, b.enter(nil, closed))
}
