package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/cachetest"
	"github.com/wavehouse/wavehouse/internal/cache/layered"
	"github.com/wavehouse/wavehouse/internal/cache/local"
	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestConformanceBehindANearCache(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Redis, "--save", "")
	way := newPath(t, s.Addr())
	o := quick()
	o.Addresses = []string{way.addr}
	both := func(t *testing.T, suite cachetest.Options) cache.Cache {
		near, err := local.New(local.Options{MaxBytes: 16 << 20})
		require.NoError(t, err)
		return layered.New(near, open(t, within(o, suite)))
	}
	cachetest.Run(t, cachetest.Capabilities{Outage: func(_ cache.Cache, out bool) { way.cut(out) }}, func(t *testing.T, suite cachetest.Options) cache.Cache {
		s.Do(t, "FLUSHALL")
		return both(t, suite)
	})

	// A second look does not need Redis; a write that this process is told of does.
	s.Do(t, "FLUSHALL")
	c := both(t, cachetest.Options{Outage: true})
	key := cache.NewKey("a").Add("q").Key()
	require.Eventually(t, func() bool {
		_, ticket := c.Lookup(t.Context(), key)
		c.Fill(t.Context(), ticket, cache.NewValue([]byte("1"), "text/plain", []string{"t"}), time.Hour)
		before := s.Info(t, "stats", "total_commands_processed")
		value, _ := c.Lookup(t.Context(), key)
		return value != nil && before != ""
	}, time.Minute, time.Millisecond)
	assert.Eventually(t, func() bool {
		c.Lookup(t.Context(), key) // near for a second
		s.Freeze()
		defer s.Thaw()
		value, _ := c.Lookup(t.Context(), key)
		return value != nil
	}, time.Minute, time.Millisecond)
	require.NoError(t, c.Invalidate(t.Context(), []tenant.ID{"a"}, []string{"t"}))
	value, _ := c.Lookup(t.Context(), key)
	assert.Nil(t, value)
}
