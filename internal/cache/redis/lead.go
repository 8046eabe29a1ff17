package redis

import (
	"context"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/lifetime"
)

// Times between two looks at a question that another process asks.
const (
	firstLook = 2 * time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// Lead implements cache.Leader. One process at a time has the question's lock,
// which lapses when it falls silent; the others look until there is a value, or
// no lock any more: then the answer was not kept, and each asks for itself.
func (c *Cache) Lead(ctx context.Context, key cache.Key) (*cache.Value, cache.Ticket, func()) {
	mine := c.name()
	value, ticket, lock := c.look(ctx, key, mine, c.o.Timing.Lock.Milliseconds(), "take")
	for every := firstLook; value == nil && lock == lockHeld && lifetime.Pause(ctx, every); every = min(2*every, lastLook) {
		value, ticket, lock = c.look(ctx, key, mine, c.o.Timing.Lock.Milliseconds(), "look")
	}
	if lock != lockTaken {
		return value, ticket, func() {}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	_, lockKey := c.entryKeys(key, "")
	var held sync.WaitGroup
	held.Go(func() { c.hold(ctx, lockKey, mine) })
	return nil, ticket, func() {
		stop()
		held.Wait()
		_ = c.lock(context.WithoutCancel(ctx), lockKey, mine, 0)
	}
}

// hold renews a lock until ctx ends.
func (c *Cache) hold(ctx context.Context, key, mine string) {
	every := time.NewTicker(c.o.Timing.Lock / 3)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			_ = c.lock(ctx, key, mine, c.o.Timing.Lock)
		}
	}
}

// lock gives a lock further life, or gives it up.
func (c *Cache) lock(ctx context.Context, key, mine string, life time.Duration) error {
	return c.do(ctx, "lock", false, func(ctx context.Context) error {
		return c.scripts.lock.Run(ctx, c.client, []string{key}, mine, life.Milliseconds()).Err()
	})
}
