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
		{name: "feed/every chunk in order", run: feedOrder},
		{name: "feed/from now on until closed", run: feedEnds},
		{name: "feed/duplicates are not shown", run: feedDuplicates},
		{name: "feed/what it cannot show is a hole", needs: func(c Capabilities) bool { return c.Holes }, run: feedHole},
	}
}

// seen collects what a feed shows.
type seen struct {
	mu     sync.Mutex
	chunks []mq.Chunk
	at     map[mq.Topic][]mq.Position
	holes  []mq.Hole
}

func (s *seen) take(c mq.Chunk, pos mq.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[mq.Topic][]mq.Position{}
	}
	s.chunks = append(s.chunks, c)
	s.at[c.Topic] = append(s.at[c.Topic], pos)
}

func (s *seen) missed(h mq.Hole) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holes = append(s.holes, h)
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.chunks)
}

func watch(t *testing.T, b mq.Broker) (*seen, mq.Feed) {
	s := &seen{}
	f, err := b.Feed(t.Context(), mq.Viewer{Chunk: s.take, Hole: s.missed})
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
		require.Empty(t, feed.holes)
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
	require.Equal(t, []mq.Position{pos}, feed.at[want.Topic])
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
	f, err := b.Feed(t.Context(), mq.Viewer{Chunk: func(mq.Chunk, mq.Position) { calls.Add(1) }, Hole: func(mq.Hole) { calls.Add(1) }})
	require.NoError(t, err)
	f.Close()
	publish(t, b, Chunk("birch", "t", "after"))
	eventually(t, func() bool { return feed.count() == 3 }, "the chunk after")
	require.Zero(t, calls.Load())
}

// feedHole: whoever follows a topic can tell that it was missed some, and where
// to look for it.
func feedHole(t *testing.T, s Store) {
	b := open(t, s)
	feed, _ := watch(t, b)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	before := publish(t, b, Chunk("birch", "t", "before"))
	s.Hole(t, b, topic)
	after := publish(t, b, Chunk("birch", "t", "after"))
	eventually(t, func() bool {
		feed.mu.Lock()
		defer feed.mu.Unlock()
		return len(feed.holes) > 0 && len(feed.chunks) > 0 && string(feed.chunks[len(feed.chunks)-1].Body) == "after"
	}, "the hole and what follows")
	h := feed.holes[0]
	require.False(t, h.From.Before(before), "%v was shown", before)
	require.True(t, h.From.Before(h.Until))
	require.True(t, h.Until.Before(after), "%v was shown", after)
	require.NoError(t, b.Replay(t.Context(), topic, h.From, h.Until, func(mq.Chunk, mq.Position) error { return nil }))
}
