package natskv

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/coord"
)

// witness sees who acts under a lease.
type witness struct {
	mu     sync.Mutex
	newest coord.Token
	acts   int
	wrong  []string
}

// act is something that only a holder does.
func (w *witness) act(who int, token coord.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts++
	if token < w.newest {
		w.wrong = append(w.wrong, fmt.Sprintf("process %d acts with token %d after %d", who, token, w.newest))
	}
	w.newest = max(w.newest, token)
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acts
}

// contend acts again and again while the lease is held. Between the look at the
// context and the act the process cannot be stopped: what it does elsewhere is
// fenced.
func contend(ctx context.Context, c *Coordinator, p *process, who int, w *witness) {
	_ = c.Elect(ctx, "sweeper", func(ctx context.Context, token coord.Token) error {
		for ctx.Err() == nil {
			w.act(who, token)
			<-p.After(100 * time.Millisecond)
			if p.random.chance(0.002) {
				return nil // it has done what it had to
			}
		}
		return ctx.Err()
	})
}

// trouble does one thing after the other to a process.
func trouble(p *process, until time.Time) {
	for time.Now().Before(until) {
		time.Sleep(p.random.upTo(20 * time.Second))
		switch d := p.random.upTo(40 * time.Second); {
		case p.random.chance(0.25):
			p.stop(d, false)
		case p.random.chance(0.33):
			p.stop(d, true)
		case p.random.chance(0.5):
			p.reach(true)
			time.Sleep(d)
			p.reach(false)
		default:
			// A clock that is set back, and a machine that stands without its
			// monotonic clock's noticing, in one term are more than any clock tells.
			p.setWall(p.random.upTo(2*time.Hour) - time.Hour)
			time.Sleep(giveUpAfter + time.Second)
		}
	}
}

// paces are how fast clocks run: the last is by not quite half faster than the
// first, which is what the time to take a lease is longer for than the time to give
// it up.
var paces = [...]float64{0.82, 1, 1.22}

// Whatever happens to processes, clocks and requests, no two act under one lease,
// and once nothing happens any more one of them does.
func TestTwoProcessesNeverBothHold(t *testing.T) {
	const processes, troubled = 3, 20 * time.Minute
	seeds := uint64(60)
	if testing.Short() {
		seeds /= 4
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			world, seen := newWorld(seed), &witness{}
			ctx, cancel := context.WithCancel(t.Context())
			var contending, troubling sync.WaitGroup
			all := make([]*process, processes)
			coordinators := make([]*Coordinator, processes)
			for i := range all {
				p := world.process()
				p.faults.Store(100)
				p.setWall(p.random.upTo(time.Hour))
				p.pace = paces[p.random.upTo(2)]
				all[i] = p
				coordinators[i] = New(Options{Bucket: p, Clock: p, Instance: fmt.Sprint("p", i)})
				contending.Go(func() {
					for ctx.Err() == nil {
						contend(ctx, coordinators[i], p, i, seen)
					}
				})
				until := time.Now().Add(troubled)
				troubling.Go(func() { trouble(p, until) })
			}
			troubling.Wait()
			for _, p := range all {
				p.faults.Store(0)
			}
			require.Greater(t, seen.count(), 1000, "seed %d", seed)
			before := seen.count()
			time.Sleep(2 * time.Minute)
			assert.Greater(t, seen.count(), before+600, "seed %d: somebody holds once all is well", seed)
			cancel()
			contending.Wait()
			for _, c := range coordinators {
				require.NoError(t, c.Close(context.Background()))
			}
			time.Sleep(time.Minute) // what is on its way arrives
			require.Empty(t, seen.wrong, "seed %d", seed)
		})
	}
}

// Leaving in the middle of a renewal gives the lease up all the same: nobody has to
// wait until it lapses.
func TestALeaseIsGivenUpWhateverItsHolderWasDoing(t *testing.T) {
	const times = 200
	synctest.Test(t, func(t *testing.T) {
		world := newWorld(1)
		p, other := world.process(), world.process()
		mine, theirs := New(Options{Bucket: p, Clock: p, Instance: "mine"}), New(Options{Bucket: other, Clock: other, Instance: "theirs"})
		for n := range times {
			ctx, leave := context.WithCancel(t.Context())
			members, err := mine.Members(ctx, "ingest")
			require.NoError(t, err)
			time.Sleep(renewEvery + p.random.upTo(50*time.Millisecond))
			leave()
			for range members.Changes {
				continue
			}
			ctx, leave = context.WithCancel(t.Context())
			members, err = theirs.Members(ctx, "ingest")
			require.NoError(t, err)
			assert.Equal(t, "m0", members.Self, "time %d", n)
			leave()
			for range members.Changes {
				continue
			}
		}
		require.NoError(t, mine.Close(context.Background()))
		require.NoError(t, theirs.Close(context.Background()))
		time.Sleep(time.Minute) // the clocks that still run fire
	})
}
