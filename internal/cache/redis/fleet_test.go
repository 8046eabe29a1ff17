package redis

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// member is a process of a fleet on one server, whose lease is as long as the test.
func member(t *testing.T, s *redistest.Server, name string) *Cache {
	t.Helper()
	c, err := New(Options{
		Mode: Standalone, Addresses: []string{s.Addr()}, Prefix: "wh", Member: name, OpTimeout: 20 * time.Second,
		Absence: time.Hour, Timing: Timing{Lease: time.Hour, Grace: time.Nanosecond},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// trusts polls and returns under which name the process believes what is kept.
func trusts(t *testing.T, c *Cache) string {
	t.Helper()
	require.NoError(t, c.poll(t.Context()))
	trust := c.fleet.trusted.Load()
	require.NotNil(t, trust)
	return trust.epoch
}

// A process that leaves after it told another history of its writes may have told
// this one of none since: what is kept from before is given out no more. One that
// leaves as it was known told of all.
func TestWhoLeavesInAnotherLifeEndsWhatIsKept(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		s := redistest.Start(t, flavor, "--save", "")
		stays := member(t, s, "stays")
		for _, moved := range []bool{false, true} {
			leaves := member(t, s, "leaves")
			require.NoError(t, leaves.poll(t.Context()))
			before := trusts(t, stays)
			if moved {
				leaves.fleet.mu.Lock()
				leaves.fleet.move()
				leaves.fleet.mu.Unlock()
			}
			require.NoError(t, leaves.Close(t.Context()))
			after := trusts(t, stays)
			require.Equal(t, moved, before != after)
			absent, _, others := stays.fleet.missing()
			require.Empty(t, absent)
			require.Zero(t, others, "it left")
		}
	})
}

// Whoever has moved to another history tells no write as done before the lease that
// it had in the former one is over: who looks there may still trust it.
func TestAWriteWaitsForTheLeaseInAFormerHistory(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		s := redistest.Start(t, flavor, "--save", "")
		c := member(t, s, "one")
		require.NoError(t, c.poll(t.Context()))
		write := func(ctx context.Context) error {
			return c.Invalidate(ctx, []tenant.ID{"birch"}, []string{"db.t"})
		}
		require.NoError(t, write(t.Context()), "in the history that it is in it waits for nobody")
		c.fleet.mu.Lock()
		c.fleet.move()
		c.fleet.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- write(ctx) }()
		select {
		case <-done:
			require.Fail(t, "it did not wait")
		case <-time.After(100 * time.Millisecond):
		}
		cancel()
		require.NoError(t, <-done)
	})
}
