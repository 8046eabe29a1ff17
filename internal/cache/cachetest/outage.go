package cachetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// failsClosed: what an invalidation names that did not reach the store is not
// given out again, however well the store is, until the invalidation has landed.
func failsClosed(t *testing.T, make Factory, outage func(cache.Cache, bool)) {
	for name, drop := range map[string]func(context.Context, cache.Cache) error{
		"tables": func(ctx context.Context, c cache.Cache) error {
			return c.Invalidate(ctx, []tenant.ID{"a", "b"}, []string{"t"})
		},
		"tenants": func(ctx context.Context, c cache.Cache) error { return c.InvalidateTenants(ctx, []tenant.ID{"a", "b"}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := make(t, Options{MaxBytes: plenty, Outage: true})
			// How long its store is asked is short: what is not kept in time is filled again.
			for _, id := range ids("a", "b", "c") {
				require.Eventually(t, func() bool {
					if read(t, c, key(id, "q")) == "before" {
						return true
					}
					_, ticket := c.Lookup(t.Context(), key(id, "q"))
					c.Fill(t.Context(), ticket, value(t, "before", "t"), time.Hour)
					return false
				}, time.Minute, time.Millisecond, "tenant %s", id)
			}
			_, before := c.Lookup(t.Context(), key("a", "late"))
			outage(c, true)
			require.Error(t, drop(t.Context(), c))
			outage(c, false)
			for _, id := range ids("a", "b") {
				assert.Empty(t, read(t, c, key(id, "q")), "tenant %s", id)
				var ticket cache.Ticket
				// A lookup that is not answered in time speaks for this process alone.
				assert.Eventually(t, func() bool {
					_, ticket = c.Lookup(t.Context(), key(id, "q"))
					return !c.Current(t.Context(), ticket, []string{"t"})
				}, time.Minute, time.Millisecond, "tenant %s", id)
				c.Fill(t.Context(), ticket, value(t, "meanwhile", "t"), time.Hour)
				assert.Empty(t, read(t, c, key(id, "q")), "tenant %s", id)
			}
			assert.Eventually(t, func() bool { return read(t, c, key("c", "q")) == "before" }, time.Minute, time.Millisecond, "of a tenant that was not named")

			ctx, cancel := context.WithCancel(t.Context())
			ended := run(ctx, c)
			assert.Eventually(t, func() bool {
				_, ticket := c.Lookup(t.Context(), key("a", "q"))
				c.Fill(t.Context(), ticket, value(t, "after", "t"), time.Hour)
				return read(t, c, key("a", "q")) == "after"
			}, time.Minute, 5*time.Millisecond, "once it has landed, answers are kept again")
			assert.Empty(t, read(t, c, key("b", "q")), "what was before never comes back")
			c.Fill(t.Context(), before, value(t, "old", "t"), time.Hour)
			assert.Empty(t, read(t, c, key("a", "late")), "read before the write")
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

func run(ctx context.Context, c cache.Cache) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return ended
}
