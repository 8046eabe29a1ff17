package natskv

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/coord"
)

// takeOver is when what a dead process held is another's, less what the queue needs
// once it knows the members: 20 s is the promise of the manual.
const takeOver = 19500 * time.Millisecond

// Wherever in its term a process dies, and others are between their looks, these
// have its lease in time, and its place among the members is gone. Had it been cut
// off only, it would have stopped before, though its clock is slow and theirs fast.
func TestADeadProcessIsTakenOverInTime(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			gone, elected, stopped := cutOff(t, seed, 1, 1)
			assert.LessOrEqual(t, gone, takeOver, "seed %d: the members", seed)
			assert.LessOrEqual(t, elected, takeOver, "seed %d: the lease", seed)
			assert.Less(t, stopped, elected, "seed %d: both hold", seed)
		})
		synctest.Test(t, func(t *testing.T) {
			_, elected, stopped := cutOff(t, seed, paces[0], paces[len(paces)-1])
			assert.Less(t, stopped, elected, "seed %d: both hold, with clocks of different pace", seed)
		})
	}
}

// cutOff cuts one of two processes off and returns how long after that the other
// sees itself alone and has the lease, and when the one that is cut off stopped.
func cutOff(t *testing.T, seed uint64, pace, otherPace float64) (gone, elected, stopped time.Duration) {
	world := newWorld(seed)
	one, other := world.process(), world.process()
	one.pace, other.pace = pace, otherPace
	dying, living := New(Options{Bucket: one, Clock: one, Instance: "dying"}), New(Options{Bucket: other, Clock: other, Instance: "living"})
	_, err := dying.Members(t.Context(), "ingest")
	require.NoError(t, err)
	held, ended, took := make(chan struct{}), make(chan time.Time, 1), make(chan time.Time, 1)
	go func() {
		_ = dying.Elect(t.Context(), "sweeper", func(ctx context.Context, _ coord.Token) error {
			close(held)
			<-ctx.Done()
			ended <- time.Now()
			return ctx.Err()
		})
	}()
	<-held
	time.Sleep(world.random.upTo(renewEvery))
	m, err := living.Members(t.Context(), "ingest")
	require.NoError(t, err)
	require.Equal(t, []string{"m0", "m1"}, m.Members)
	go func() {
		_ = living.Elect(t.Context(), "sweeper", func(context.Context, coord.Token) error { took <- time.Now(); return nil })
	}()
	time.Sleep(time.Minute + world.random.upTo(renewEvery))

	one.reach(true)
	died := time.Now()
	require.Equal(t, []string{m.Self}, <-m.Changes)
	gone = time.Since(died)
	elected, stopped = (<-took).Sub(died), (<-ended).Sub(died)
	require.NoError(t, dying.Close(context.Background()))
	require.NoError(t, living.Close(context.Background()))
	time.Sleep(time.Minute) // the clocks that still run fire
	return gone, elected, stopped
}
