// Package layered puts a small cache of the process before one that processes
// share. It is for processes that tell each other of every write: what the near
// one holds is dropped when they do.
package layered

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// nearTTL is how long the near cache answers before the far one is asked again,
// and so how much longer than it was kept for an answer may be given out.
const nearTTL = time.Second

var (
	_ cache.Cache  = (*Cache)(nil)
	_ cache.Leader = (*Cache)(nil)
)

// Far is a cache that processes share.
type Far interface {
	cache.Cache
	cache.Leader
	// Status is what an operator should know about it; nil is nothing.
	Status() error
}

// Cache implements cache.Cache and cache.Leader.
type Cache struct {
	near cache.Cache
	far  Far
}

// New makes a cache of two, which it owns.
func New(near cache.Cache, far Far) *Cache { return &Cache{near, far} }

// Lookup implements cache.Cache.
func (c *Cache) Lookup(ctx context.Context, key cache.Key) (*cache.Value, cache.Ticket) {
	value, before := c.near.Lookup(ctx, key)
	if value != nil {
		return value, before
	}
	value, ticket := c.far.Lookup(ctx, key)
	return value, c.keep(ctx, before, value, ticket)
}

// Lead implements cache.Leader.
func (c *Cache) Lead(ctx context.Context, key cache.Key) (*cache.Value, cache.Ticket, func()) {
	_, before := c.near.Lookup(ctx, key)
	value, ticket, done := c.far.Lead(ctx, key)
	return value, c.keep(ctx, before, value, ticket), done
}

// keep keeps what the far cache answered near, and makes one ticket of both.
func (c *Cache) keep(ctx context.Context, before cache.Ticket, value *cache.Value, ticket cache.Ticket) cache.Ticket {
	if value != nil {
		c.near.Fill(ctx, before, value, nearTTL)
	}
	ticket.Seen = before.Seen
	return ticket
}

// ofNear reports whether the ticket came with a near answer.
func ofNear(ticket cache.Ticket) bool { return ticket.Store.Life == "" && ticket.Taken.IsZero() }

// Current implements cache.Cache.
func (c *Cache) Current(ctx context.Context, ticket cache.Ticket, tables []string) bool {
	return c.near.Current(ctx, ticket, tables) && (ofNear(ticket) || c.far.Current(ctx, ticket, tables))
}

// Fill implements cache.Cache. What is filled gets near when it is asked for: the
// far cache knows of writes that this process was not told of yet.
func (c *Cache) Fill(ctx context.Context, ticket cache.Ticket, value *cache.Value, ttl time.Duration) {
	if ofNear(ticket) {
		c.near.Fill(ctx, ticket, value, min(ttl, nearTTL))
		return
	}
	c.far.Fill(ctx, ticket, value, ttl)
}

// Invalidate implements cache.Cache. The far cache goes first: what came from there
// before may be near by now.
func (c *Cache) Invalidate(ctx context.Context, ids []tenant.ID, tables []string) error {
	err := c.far.Invalidate(ctx, ids, tables)
	return errors.Join(err, c.near.Invalidate(ctx, ids, tables))
}

// InvalidateTenants implements cache.Cache.
func (c *Cache) InvalidateTenants(ctx context.Context, ids []tenant.ID) error {
	err := c.far.InvalidateTenants(ctx, ids)
	return errors.Join(err, c.near.InvalidateTenants(ctx, ids))
}

// Run implements cache.Cache.
func (c *Cache) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.near.Run(ctx) })
	group.Go(func() error { return c.far.Run(ctx) })
	return group.Wait()
}

// Close implements cache.Cache.
func (c *Cache) Close(ctx context.Context) error {
	return errors.Join(c.far.Close(ctx), c.near.Close(ctx))
}

// Status is that of the far cache.
func (c *Cache) Status() error { return c.far.Status() }
