package stream

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// floodRows is more than the kernel and a small backlog hold.
const floodRows = 300

// flood publishes large rows numbered from to to.
func flood(b *memoryBroker, from, to uint64) {
	page := strings.Repeat("x", 32<<10)
	for n := from; n <= to; n++ {
		c := rowsChunk(testTable, n)
		c.Body = testRow(nil, n, page)
		b.publish(c)
	}
}

func overflowed(r *rig) func() bool {
	return func() bool { return r.counter(r.hub.metrics.overflows.WithLabelValues("0")) > 0 }
}

func TestSlowReaderCatchesUpFromHistoryWithoutAGap(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{QueueBytes: 64 << 10, ReplayBatchBytes: 40 << 10}, nil)
	s, quick := r.open(testTable, "", ""), r.open(testTable, "", "")
	done := make(chan []uint64, 1)
	go func() { done <- collect(quick, floodRows) }()
	flood(b, 1, floodRows)
	eventually(t, "the backlog is taken away", overflowed(r))
	assert.Equal(t, sequence(1, floodRows), next(t, s, floodRows))
	assert.Equal(t, sequence(1, floodRows), <-done)
	flood(b, floodRows+1, floodRows+3)
	assert.Equal(t, sequence(floodRows+1, floodRows+3), next(t, s, 3), "live again")
}

// What is published between the look at the tail and the first row comes from
// the backlog, on the first connection and after falling behind.
func TestRowsPublishedWhileJoining(t *testing.T) {
	b := newMemoryBroker()
	b.publish(rowsChunk("other", 1))
	n := uint64(0)
	b.afterTail = func() {
		n++
		b.publish(rowsChunk(testTable, n))
	}
	r := newRig(t, b, Options{QueueBytes: 64 << 10}, nil)
	s := r.open(testTable, "", "")
	assert.Equal(t, []uint64{1}, next(t, s, 1))
	b.afterTail = nil
	flood(b, 2, 4)
	assert.Equal(t, sequence(2, 4), next(t, s, 3))

	joined := make(chan struct{})
	b.afterTail = func() {
		b.afterTail = nil
		b.publish(rowsChunk(testTable, floodRows+1))
		close(joined)
	}
	flood(b, 5, floodRows)
	eventually(t, "the backlog is taken away", overflowed(r))
	// The one that was published while rejoining arrives where it was published.
	assert.ElementsMatch(t, sequence(5, floodRows+1), next(t, s, floodRows-3))
	<-joined
}

func TestSlowReaderWhoseHistoryIsGone(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{QueueBytes: 64 << 10}, nil)
	s := r.open(testTable, "", "")
	last := catchUp(t, b, s)
	flood(b, last+1, floodRows)
	eventually(t, "the backlog is taken away", overflowed(r))
	b.purge(tenant.Default, 10)
	for {
		f, err := s.NextEvent()
		require.NoError(t, err)
		if f.Event == "" {
			require.Equal(t, last+1, number(t, f))
			last++
			continue
		}
		gap, err := f.Gap()
		require.NoError(t, err)
		assert.Equal(t, GapOverflow, gap.Reason)
		break
	}
	assert.Less(t, last, uint64(floodRows-10))
	assert.Equal(t, sequence(floodRows-9, floodRows), next(t, s, 10))
}

// catchUp gives a stream that has opened the time to catch up, and returns how many
// rows it took. When the second is here, it had done so before.
func catchUp(t *testing.T, b *memoryBroker, s *streamtest.Stream) (rows uint64) {
	t.Helper()
	for rows < 2 {
		rows++
		b.publish(rowsChunk(testTable, rows))
		require.Equal(t, []uint64{rows}, next(t, s, 1))
	}
	return rows
}

func TestReaderThatStaysBehindIsEnded(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{QueueBytes: 64 << 10, MaxLag: time.Nanosecond}, nil)
	s := r.open(testTable, "", "")
	last := catchUp(t, b, s)
	flood(b, last+1, floodRows)
	eventually(t, "the backlog is taken away", overflowed(r))
	for {
		f, err := s.NextEvent()
		require.NoError(t, err)
		if reason := f.EndReason(); reason != "" {
			assert.Equal(t, EndSlowConsumer, reason)
			break
		}
		require.Equal(t, last+1, number(t, f))
		last++
	}
	again := r.open(testTable, s.LastID(), "")
	assert.Equal(t, sequence(last+1, floodRows), next(t, again, floodRows-int(last)), "and misses nothing when it comes back")
}

func TestStuckReaderIsCutOff(t *testing.T) {
	t.Parallel()
	b := newMemoryBroker()
	r := newRig(t, b, Options{WriteTimeout: 3 * time.Second}, nil)
	_ = r.open(testTable, "", "")
	flood(b, 1, floodRows)
	eventually(t, "it is ended", func() bool {
		return r.counter(r.hub.metrics.ended.WithLabelValues("0", EndSlowConsumer)) == 1
	})
	eventually(t, "and gone", func() bool { return r.counter(r.hub.metrics.subscribers.WithLabelValues("0")) == 0 })
}

func TestShutdownDoesNotWaitForAStuckReader(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{WriteTimeout: time.Hour, QueueBytes: 64 << 10}, nil)
	_ = r.open(testTable, "", "")
	flood(b, 1, floodRows)
	eventually(t, "it is stuck", overflowed(r))
	r.hub.CloseAll(EndShutdown)
	eventually(t, "its handler returned", func() bool { return r.counter(r.hub.metrics.subscribers.WithLabelValues("0")) == 0 })
}

// More readers of history than may read at once all get theirs, and one that
// does not read holds up nobody.
func TestReplaysAreLimitedNotStarved(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{MaxReplays: 1, ReplayBatchBytes: 32 << 10}, nil)
	flood(b, 1, 50)
	inFlight := make(chan float64, 1000)
	b.onReplay = func() { inFlight <- r.counter(r.hub.metrics.replaying) }
	_ = r.open(testTable, "", sinceEver) // never read
	done := make(chan []uint64, 8)
	for range cap(done) {
		go func() { done <- collect(r.open(testTable, "", sinceEver), 50) }()
	}
	for range cap(done) {
		assert.Equal(t, sequence(1, 50), <-done)
	}
	for len(inFlight) > 0 {
		assert.LessOrEqual(t, <-inFlight, 1.0)
	}
}

func TestHistoryThatCannotBeRead(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{QueueBytes: 64 << 10}, nil)
	s := r.open(testTable, "", "")
	flood(b, 1, floodRows)
	eventually(t, "the backlog is taken away", overflowed(r))
	b.mu.Lock()
	b.fail = assert.AnError
	b.mu.Unlock()
	for {
		f, err := s.NextEvent()
		require.NoError(t, err)
		if reason := f.EndReason(); reason != "" {
			assert.Equal(t, EndUnavailable, reason)
			assert.NotEmpty(t, f.Retry)
			return
		}
	}
}
