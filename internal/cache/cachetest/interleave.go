package cachetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/cache"
)

// neverOlder interleaves writes and reads at random: no answer is older than
// what was written, and told, before its question.
func neverOlder(t *testing.T, make Factory) {
	c := make(t, Options{MaxBytes: plenty})
	reads := cache.NewReads(cache.ReadsOptions{Cache: c})
	const tables = 3
	var stored, told [tables]atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var all sync.WaitGroup
	var hits, answers atomic.Int64
	begun := time.Now()
	all.Go(func() { // for a while, and until something was kept
		for ctx.Err() == nil && (hits.Load() == 0 || time.Since(begun) < 300*time.Millisecond) {
			time.Sleep(time.Millisecond)
		}
		cancel()
	})
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				at := rand.IntN(tables)
				now := stored[at].Add(1)
				if rand.IntN(64) == 0 {
					assert.NoError(t, c.InvalidateTenants(context.Background(), ids("a")))
				} else {
					assert.NoError(t, c.Invalidate(context.Background(), ids("a"), []string{name(at)}))
				}
				raise(&told[at], now)
				pause := 200 * time.Microsecond
				if hits.Load() == 0 { // answers take longer than writes leave them
					pause += time.Since(begun) / 10
				}
				time.Sleep(rand.N(pause))
			}
		})
	}
	for range 6 {
		all.Go(func() {
			for ctx.Err() == nil {
				at := rand.IntN(tables)
				least := told[at].Load()
				v, outcome, err := reads.Get(context.Background(), question(at, &stored[at]))
				if !assert.NoError(t, err) {
					return
				}
				answers.Add(1)
				if outcome == cache.Hit {
					hits.Add(1)
				}
				body, _ := v.Body()
				got, _ := strconv.ParseInt(string(body), 10, 64)
				if !assert.GreaterOrEqual(t, got, least, "%s answered with what was before", outcome) {
					return
				}
			}
		})
	}
	all.Wait()
	assert.NoError(t, reads.Close(context.Background()))
	assert.Positive(t, answers.Load())
	assert.Positive(t, hits.Load(), "nothing was ever kept")
}

func question(at int, stored *atomic.Int64) cache.Query {
	return cache.Query{
		Key: key("a", name(at)),
		Dependencies: func(context.Context) cache.Dependencies {
			return cache.Dependencies{Tables: []string{name(at)}, Complete: true}
		},
		Run: func(context.Context) (cache.Answer, error) {
			seen := stored.Load()
			time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
			return cache.Answer{Body: []byte(fmt.Sprint(seen)), ContentType: "text/plain"}, nil
		},
	}
}

func name(at int) string { return "t" + strconv.Itoa(at) }

// raise sets the number unless it is larger already.
func raise(n *atomic.Int64, to int64) {
	for {
		now := n.Load()
		if now >= to || n.CompareAndSwap(now, to) {
			return
		}
	}
}
