package local_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/cachetest"
	"github.com/wavehouse/wavehouse/internal/cache/local"
)

func open(t testing.TB, o local.Options) *local.Cache {
	t.Helper()
	c, err := local.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

func TestConformance(t *testing.T) {
	cachetest.Run(t, cachetest.Capabilities{Clock: true, Bounded: true}, func(t *testing.T, o cachetest.Options) cache.Cache {
		return open(t, local.Options{MaxBytes: o.MaxBytes, Now: o.Now})
	})
}

// The bound holds while it is filled, and not only in the end.
func TestWeightStaysWithinTheBound(t *testing.T) {
	const size = 1 << 20
	registry := prometheus.NewRegistry()
	c := open(t, local.Options{MaxBytes: size, Metrics: registry})
	body := []byte(strings.Repeat("x", 900))
	for i := range 5000 {
		_, ticket := c.Lookup(t.Context(), cache.NewKey("a").Add(fmt.Sprint(i)).Key())
		c.Fill(t.Context(), ticket, cache.NewValue(body, "text/plain", nil), time.Hour)
		require.LessOrEqual(t, c.Weight(), uint64(size))
	}
	assert.Greater(t, c.Weight(), uint64(size/2))
	families, err := testutil.GatherAndCount(registry, "wavehouse_cache_bytes", "wavehouse_cache_entries")
	require.NoError(t, err)
	assert.Equal(t, 2, families)
}

// What is asked for often outlives a scan of questions that are asked once.
func TestWhatIsAskedOftenStays(t *testing.T) {
	c := open(t, local.Options{MaxBytes: 1 << 20})
	body := []byte(strings.Repeat("x", 2000))
	ask := func(question string) bool {
		found, ticket := c.Lookup(context.Background(), cache.NewKey("a").Add(question).Key())
		if found == nil {
			c.Fill(context.Background(), ticket, cache.NewValue(body, "text/plain", nil), time.Hour)
		}
		return found != nil
	}
	hits := 0
	for round := range 4000 {
		ask(fmt.Sprintf("scan %d", round))
		for often := range 5 {
			if ask(fmt.Sprintf("often %d", often)) {
				hits++
			}
		}
	}
	assert.Greater(t, hits, 4000*5*9/10)
}

func BenchmarkHit(b *testing.B) {
	c := open(b, local.Options{MaxBytes: 64 << 20})
	key := cache.NewKey("a").Add("q").Key()
	_, ticket := c.Lookup(b.Context(), key)
	c.Fill(b.Context(), ticket, cache.NewValue([]byte(strings.Repeat("x", 900)), "text/plain", []string{"db.t"}), time.Hour)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if v, _ := c.Lookup(context.Background(), key); v == nil {
				b.Fatal("a miss")
			}
		}
	})
}
