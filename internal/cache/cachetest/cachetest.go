// Package cachetest holds every implementation of cache.Cache to its contract.
package cachetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Options are what a cache under test is made with.
type Options struct {
	// MaxBytes bounds it.
	MaxBytes int64
	// Now is its clock; nil is time.Now.
	Now func() time.Time
	// Outage says that its store will be out of reach: how long it is asked in vain is
	// the test's time.
	Outage bool
}

// Factory makes an empty cache that ends with the test. Run is the suite's to
// call.
type Factory func(t *testing.T, o Options) cache.Cache

// Capabilities say which cases apply.
type Capabilities struct {
	// Clock: Options.Now moves the entries' expiry.
	Clock bool
	// Bounded: Options.MaxBytes bounds the entries, and a single one.
	Bounded bool
	// Outage keeps a cache's store from being reached, and lets it; nil for one
	// that has no store to reach.
	Outage func(c cache.Cache, out bool)
}

const plenty = 16 << 20

// Run runs every case that applies.
func Run(t *testing.T, c Capabilities, make Factory) {
	t.Run("Keys", func(t *testing.T) { keys(t, make) })
	t.Run("Values", func(t *testing.T) { values(t, make) })
	t.Run("Invalidate", func(t *testing.T) { invalidate(t, make) })
	t.Run("InvalidateTenant", func(t *testing.T) { invalidateTenant(t, make) })
	t.Run("WriteDuringRead", func(t *testing.T) { writeDuringRead(t, make) })
	t.Run("ManyTables", func(t *testing.T) { manyTables(t, make) })
	t.Run("NeverOlder", func(t *testing.T) { neverOlder(t, make) })
	t.Run("Life", func(t *testing.T) { life(t, make) })
	if c.Clock {
		t.Run("Expiry", func(t *testing.T) { expiry(t, make) })
	}
	if c.Bounded {
		t.Run("Bounded", func(t *testing.T) { bounded(t, make) })
	}
	if c.Outage != nil {
		t.Run("FailsClosed", func(t *testing.T) { failsClosed(t, make, c.Outage) })
	}
}

func key(id tenant.ID, question string) cache.Key { return cache.NewKey(id).Add(question).Key() }

func value(t *testing.T, body string, tables ...string) *cache.Value {
	t.Helper()
	v, err := new(cache.Encoders).Compress(cache.NewValue([]byte(body), "application/json", tables))
	require.NoError(t, err)
	return v
}

// fill looks up, which must miss, and fills.
func fill(t *testing.T, c cache.Cache, k cache.Key, v *cache.Value) {
	t.Helper()
	found, ticket := c.Lookup(t.Context(), k)
	require.Nil(t, found)
	c.Fill(t.Context(), ticket, v, time.Hour)
}

// read returns the body of a key, "" on a miss.
func read(t *testing.T, c cache.Cache, k cache.Key) string {
	t.Helper()
	found, ticket := c.Lookup(t.Context(), k)
	require.Equal(t, k, ticket.Key)
	if found == nil {
		return ""
	}
	body, err := found.Body()
	require.NoError(t, err)
	return string(body)
}

func keys(t *testing.T, make Factory) {
	c := make(t, Options{MaxBytes: plenty})
	fill(t, c, key("a", "q"), value(t, "of a", "t"))
	fill(t, c, key("b", "q"), value(t, "of b", "t"))
	fill(t, c, key("a", "r"), value(t, "other", "t"))
	assert.Equal(t, "of a", read(t, c, key("a", "q")))
	assert.Equal(t, "of b", read(t, c, key("b", "q")))
	assert.Equal(t, "other", read(t, c, key("a", "r")))
	assert.Empty(t, read(t, c, key("c", "q")))
	_, ticket := c.Lookup(t.Context(), key("a", "q"))
	c.Fill(t.Context(), ticket, value(t, "newer", "t"), time.Hour)
	assert.Equal(t, "newer", read(t, c, key("a", "q")), "a later answer takes the place")
}

func values(t *testing.T, make Factory) {
	c := make(t, Options{MaxBytes: plenty})
	for _, size := range []int{0, 1, 1024, 1025, 16 << 10, 16<<10 + 1, 300_000} {
		body := strings.Repeat(`{"page":"/home","n":12345},`, size/27+1)[:size]
		v := value(t, body, "t", "u")
		k := key("a", fmt.Sprint(size))
		fill(t, c, k, v)
		found, _ := c.Lookup(t.Context(), k)
		require.NotNil(t, found, "%d bytes", size)
		kept, err := found.Body()
		require.NoError(t, err)
		assert.Equal(t, body, string(kept))
		assert.Equal(t, v.ETag, found.ETag)
		assert.Equal(t, "application/json", found.ContentType)
		assert.Equal(t, []string{"t", "u"}, found.Tables)
	}
}

func ids(all ...tenant.ID) []tenant.ID { return all }

func drop(t *testing.T, c cache.Cache, of []tenant.ID, tables ...string) {
	t.Helper()
	require.NoError(t, c.Invalidate(t.Context(), of, tables))
}

func invalidate(t *testing.T, make Factory) {
	c := make(t, Options{MaxBytes: plenty})
	fill(t, c, key("a", "one"), value(t, "1", "t"))
	fill(t, c, key("a", "both"), value(t, "2", "u", "t"))
	fill(t, c, key("a", "other"), value(t, "3", "u"))
	fill(t, c, key("a", "none"), value(t, "4"))
	fill(t, c, key("b", "one"), value(t, "5", "t"))
	drop(t, c, ids("a"), "t", "v")
	assert.Empty(t, read(t, c, key("a", "one")))
	assert.Empty(t, read(t, c, key("a", "both")))
	assert.Equal(t, "3", read(t, c, key("a", "other")))
	assert.Equal(t, "4", read(t, c, key("a", "none")), "what depends on no table lives by its time")
	assert.Equal(t, "5", read(t, c, key("b", "one")), "of another tenant")
	drop(t, c, ids("a"))
	assert.Equal(t, "3", read(t, c, key("a", "other")), "no table is not every table")
	fill(t, c, key("a", "one"), value(t, "again", "t"))
	assert.Equal(t, "again", read(t, c, key("a", "one")))
	fill(t, c, key("c", "one"), value(t, "6", "t"))
	drop(t, c, ids("a", "c"), "t")
	assert.Empty(t, read(t, c, key("a", "one")))
	assert.Empty(t, read(t, c, key("c", "one")))
	assert.Equal(t, "5", read(t, c, key("b", "one")), "of a tenant that was not named")
}

func invalidateTenant(t *testing.T, make Factory) {
	c := make(t, Options{MaxBytes: plenty})
	fill(t, c, key("a", "one"), value(t, "1", "t"))
	fill(t, c, key("a", "none"), value(t, "2"))
	fill(t, c, key("b", "one"), value(t, "3", "t"))
	require.NoError(t, c.InvalidateTenants(t.Context(), ids("a")))
	assert.Empty(t, read(t, c, key("a", "one")))
	assert.Empty(t, read(t, c, key("a", "none")))
	assert.Equal(t, "3", read(t, c, key("b", "one")))
}

// writeDuringRead: a result is never filed under a version newer than its data.
func writeDuringRead(t *testing.T, make Factory) {
	c := make(t, Options{MaxBytes: plenty})
	for name, write := range map[string]func() error{
		"table":  func() error { return c.Invalidate(t.Context(), ids("a"), []string{"t"}) },
		"tenant": func() error { return c.InvalidateTenants(t.Context(), ids("a")) },
	} {
		k := key("a", name)
		_, before := c.Lookup(t.Context(), k)
		assert.True(t, c.Current(t.Context(), before, []string{"t"}), name)
		require.NoError(t, write())
		assert.False(t, c.Current(t.Context(), before, []string{"t"}), name)
		_, after := c.Lookup(t.Context(), k)
		assert.True(t, c.Current(t.Context(), after, []string{"t"}), name)

		c.Fill(t.Context(), before, value(t, "old", "t"), time.Hour)
		assert.Empty(t, read(t, c, k), "%s: read before the write", name)
		c.Fill(t.Context(), after, value(t, "new", "t"), time.Hour)
		c.Fill(t.Context(), before, value(t, "old", "t"), time.Hour)
		assert.Equal(t, "new", read(t, c, k), name)
	}
}

// life: a cache runs until it is told to end, and ends once.
func life(t *testing.T, make Factory) {
	c := make(t, Options{MaxBytes: plenty})
	ctx, cancel := context.WithCancel(t.Context())
	ended := run(ctx, c)
	fill(t, c, key("a", "q"), value(t, "1", "t"))
	assert.Equal(t, "1", read(t, c, key("a", "q")))
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, c.Close(t.Context()))
}

// manyTables: however many tables are written, none is forgotten.
func manyTables(t *testing.T, make Factory) {
	c := make(t, Options{MaxBytes: plenty})
	fill(t, c, key("a", "q"), value(t, "1", "t7"))
	for i := range 400 {
		var tables []string
		for j := range 50 {
			tables = append(tables, fmt.Sprintf("t%d", 50*i+j))
		}
		drop(t, c, ids("a"), tables...)
	}
	assert.Empty(t, read(t, c, key("a", "q")))
}

func expiry(t *testing.T, make Factory) {
	now := time.Date(2026, 3, 24, 12, 0, 0, 0, time.UTC)
	c := make(t, Options{MaxBytes: plenty, Now: func() time.Time { return now }})
	_, ticket := c.Lookup(t.Context(), key("a", "q"))
	c.Fill(t.Context(), ticket, value(t, "1", "t"), time.Minute)
	now = now.Add(59 * time.Second)
	assert.Equal(t, "1", read(t, c, key("a", "q")))
	now = now.Add(time.Second)
	assert.Empty(t, read(t, c, key("a", "q")))
	_, ticket = c.Lookup(t.Context(), key("a", "zero"))
	c.Fill(t.Context(), ticket, value(t, "1", "t"), 0)
	assert.Empty(t, read(t, c, key("a", "zero")), "no time is not for ever")
}

func bounded(t *testing.T, make Factory) {
	const size = 1 << 20
	c := make(t, Options{MaxBytes: size})
	random := noise(size)
	fill(t, c, key("a", "large"), value(t, random[:size/16], "t"))
	assert.Empty(t, read(t, c, key("a", "large")), "over a sixteenth of the cache")
	kept, entry := 0, size/64
	for i := range 200 {
		fill(t, c, key("a", fmt.Sprint(i)), value(t, random[i:i+entry], "t"))
	}
	for i := range 200 {
		if read(t, c, key("a", fmt.Sprint(i))) != "" {
			kept++
		}
	}
	assert.LessOrEqual(t, kept*entry, size)
	assert.Positive(t, kept)
}

// noise is text that does not shrink.
func noise(n int) string {
	var b strings.Builder
	state := uint64(88172645463325252)
	for b.Len() < n+1024 {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		b.WriteByte(byte(state >> 32))
	}
	return b.String()
}
