package mqtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func feedCases() []testCase {
	return []testCase{
		{name: "feed/every chunk in order", needs: anyBroker, run: feedOrder},
		{name: "feed/from now on until closed", needs: anyBroker, run: feedEnds},
		{name: "feed/duplicates are not shown", needs: anyBroker, run: feedDuplicates},
	}
}

// seen collects what a feed shows.
type seen struct {
	mu     sync.Mutex
	chunks []mq.Chunk
	at     map[tenant.ID][]mq.Position
}

func (s *seen) take(c mq.Chunk, pos mq.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[tenant.ID][]mq.Position{}
	}
	s.chunks = append(s.chunks, c)
	s.at[c.Tenant] = append(s.at[c.Tenant], pos)
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.chunks)
}

func watch(t *testing.T, b mq.Broker) (*seen, mq.Feed) {
	s := &seen{}
	f, err := b.Feed(t.Context(), s.take)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return s, f
}

func feedOrder(t *testing.T, s Store) {
	b := open(t, s)
	one, _ := watch(t, b)
	two, _ := watch(t, b)
	var publishers sync.WaitGroup
	for w := range 8 {
		publishers.Go(func() {
			for n := range 40 {
				id := tenant.ID(fmt.Sprint("tenant", n%3))
				_, err := b.Publish(t.Context(), Chunk(id, fmt.Sprint("t", w), fmt.Sprint(w, "/", n)))
				assert.NoError(t, err)
			}
		})
	}
	publishers.Wait()
	for _, feed := range []*seen{one, two} {
		eventually(t, func() bool { return feed.count() == 320 }, "320 chunks on the feed")
		for _, list := range feed.at {
			for n, pos := range list {
				require.True(t, n == 0 || list[n-1].Before(pos), "%v comes after %v", pos, list[max(n, 1)-1])
			}
		}
	}
}

func feedEnds(t *testing.T, s Store) {
	b := open(t, s)
	publishMany(t, b, "birch", "t", 3)
	feed, f := watch(t, b)
	want := Chunk("birch", "t", "seen")
	pos := publish(t, b, want)
	eventually(t, func() bool { return feed.count() == 1 }, "the chunk")
	require.Equal(t, []mq.Chunk{want}, feed.chunks)
	require.Equal(t, []mq.Position{pos}, feed.at["birch"])
	f.Close()
	f.Close()
	other, _ := watch(t, b)
	publish(t, b, Chunk("birch", "t", "not seen"))
	eventually(t, func() bool { return other.count() == 1 }, "the other feed")
	require.Equal(t, 1, feed.count())
}

func feedDuplicates(t *testing.T, s Store) {
	b := open(t, s)
	feed, _ := watch(t, b)
	c := Chunk("birch", "t", "once")
	c.ID = "id"
	publish(t, b, c)
	publish(t, b, c)
	publish(t, b, Chunk("birch", "t", "last"))
	eventually(t, func() bool { return feed.count() >= 2 }, "two chunks")
	require.Equal(t, "last", string(feed.chunks[1].Body))
	var calls atomic.Int32
	f, err := b.Feed(t.Context(), func(mq.Chunk, mq.Position) { calls.Add(1) })
	require.NoError(t, err)
	f.Close()
	publish(t, b, Chunk("birch", "t", "after"))
	eventually(t, func() bool { return feed.count() == 3 }, "the chunk after")
	require.Zero(t, calls.Load())
}
