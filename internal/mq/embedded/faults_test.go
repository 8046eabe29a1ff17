package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

// clock is a clock that tests move.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1e9, 0).Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }
func streamFolder(dir, stream string) string {
	return filepath.Join(dir, "jetstream", "$G", "streams", stream)
}

func TestCorruptStoreCostsItsTenantAlone(t *testing.T) {
	dir, log, clk := t.TempDir(), &logBook{}, &clock{}
	b := start(t, Options{Dir: dir})
	put(t, b, "birch", "lost")
	put(t, b, "cedar", "kept")
	require.NoError(t, b.Park(t.Context(), mqtest.Letter("elm", "t", "row")))
	require.NoError(t, b.Close(t.Context()))
	for _, name := range []string{"INGEST_birch", "DLQ_elm"} {
		folder := filepath.Join(streamFolder(dir, name), "msgs")
		require.NoError(t, os.RemoveAll(folder))
		require.NoError(t, os.WriteFile(folder, []byte("no folder"), 0o600))
	}

	reg := prometheus.NewRegistry()
	b = start(t, Options{Dir: dir, Logger: log.logger(), Now: clk.now, Registerer: reg})
	put(t, b, "cedar", "still works")
	birch := statusOf(t, b, "birch").Err
	require.ErrorContains(t, birch, "INGEST_birch")
	require.ErrorContains(t, birch, streamFolder(dir, "INGEST_birch"))
	require.Equal(t, birch.Error(), b.Unavailable()["birch"].Error())
	require.NotContains(t, b.Unavailable(), mqtest.Chunk("cedar", "", "").Tenant)
	require.ErrorContains(t, statusOf(t, b, "elm").Err, "DLQ_elm")
	require.NoError(t, statusOf(t, b, "cedar").Err)
	require.Contains(t, log.text(), streamFolder(dir, "INGEST_birch"))
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP wavehouse_mq_depth_chunks Chunks kept in the queue, history included.
# TYPE wavehouse_mq_depth_chunks gauge
wavehouse_mq_depth_chunks{tenant="cedar"} 2
# HELP wavehouse_mq_queue_available 1 for a queue that is open; 0 for one that cannot be opened, whose depth is unknown.
# TYPE wavehouse_mq_queue_available gauge
wavehouse_mq_queue_available{tenant="birch"} 0
wavehouse_mq_queue_available{tenant="cedar"} 1
wavehouse_mq_queue_available{tenant="elm"} 0
`), "wavehouse_mq_depth_chunks", "wavehouse_mq_queue_available"))
	_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", "refused"))
	require.ErrorIs(t, err, mq.ErrUnavailable)
	require.NotErrorIs(t, err, mq.ErrFull)
	require.ErrorIs(t, b.Park(t.Context(), mqtest.Letter("elm", "t", "row")), mq.ErrUnavailable)
	letters, err := b.DeadLetters("elm")
	require.NoError(t, err)
	_, err = letters.Counts(t.Context())
	require.ErrorIs(t, err, mq.ErrUnavailable)
	err = b.Replay(t.Context(), mq.Topic{Tenant: "birch", Table: "t"}, mq.Position{}, mq.Position{}, nil)
	require.ErrorIs(t, err, mq.ErrUnavailable)

	require.NoError(t, os.RemoveAll(streamFolder(dir, "INGEST_birch")))
	_, err = b.Publish(t.Context(), mqtest.Chunk("birch", "t", "too soon"))
	require.ErrorIs(t, err, mq.ErrUnavailable, "attempts are paced")
	clk.advance(6 * time.Second)
	require.EqualValues(t, 1, seqOf(put(t, b, "birch", "afresh")))
	require.NoError(t, os.RemoveAll(streamFolder(dir, "DLQ_elm")))
	require.NoError(t, b.SetBudget(t.Context(), "elm", 1<<30), "a reload tries at once")
	require.NoError(t, b.Park(t.Context(), mqtest.Letter("elm", "t", "row")))
	require.NoError(t, statusOf(t, b, "elm").Err)
}

func TestStreamWhoseCreationWasCutShort(t *testing.T) {
	dir := t.TempDir()
	folder := streamFolder(dir, "INGEST_birch")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "msgs"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "meta.inf"), []byte("{}"), 0o600))
	b := start(t, Options{Dir: dir})
	put(t, b, "birch", "works")
}

func TestDirectoryBelongsToOneProcess(t *testing.T) {
	dir := t.TempDir()
	start(t, Options{Dir: dir})
	_, err := New(Options{Dir: dir, Logger: quiet()})
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "in use")
	_, err = New(Options{Dir: filepath.Join(dir, "lock"), Logger: quiet()})
	require.Error(t, err, "not a directory")
}

func TestVolumeWithoutRoom(t *testing.T) {
	var free atomic.Uint64
	free.Store(500 << 30)
	var broken atomic.Bool
	log := &logBook{}
	b := start(t, Options{Dir: t.TempDir(), Logger: log.logger(), WatchInterval: 5 * time.Millisecond,
		FreeSpace: func() (uint64, uint64, error) {
			if broken.Load() {
				return 0, 0, errors.New("no answer")
			}
			return free.Load(), 1000 << 30, nil
		}})
	in, c := consumeInto(t, b)
	put(t, b, "birch", "first")
	require.NoError(t, c.Ack(in.await(t, 1)...))
	free.Store(1<<30 - 1)
	require.Eventually(t, func() bool { return b.Full() != nil }, time.Minute, time.Millisecond)
	_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", "refused"))
	require.ErrorIs(t, err, mq.ErrFull)
	require.ErrorContains(t, err, "volume")
	require.ErrorIs(t, b.Park(t.Context(), mqtest.Letter("birch", "t", "x")), mq.ErrFull)
	require.Eventually(t, func() bool { return statusOf(t, b, "birch").Chunks == 0 }, time.Minute, time.Millisecond,
		"acknowledged history is given up")
	broken.Store(true)
	require.Eventually(t, func() bool { return b.space.failingNow() }, time.Minute, time.Millisecond)
	require.Error(t, b.Full(), "not to know changes nothing")
	broken.Store(false)
	free.Store(1 << 30)
	require.Never(t, func() bool { return b.Full() == nil }, 50*time.Millisecond, 5*time.Millisecond, "just enough is not enough again")
	free.Store(2 << 30)
	require.Eventually(t, func() bool { return b.Full() == nil }, time.Minute, time.Millisecond)
	put(t, b, "birch", "again")
	require.Contains(t, log.text(), "queue volume is full")
	// It is said after it is so.
	require.Eventually(t, func() bool { return strings.Contains(log.text(), "has room again") }, time.Minute, time.Millisecond)
}

func (s *space) failingNow() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.failing }

func TestSmallVolumeKeepsATwentieth(t *testing.T) {
	free := uint64(40)
	s := newSpace(Options{FreeSpace: func() (uint64, uint64, error) { return free, 1000, nil }}, quiet())
	require.ErrorIs(t, s.full(0), mq.ErrFull)
	free = 60
	require.ErrorIs(t, s.full(1), mq.ErrFull)
	require.NoError(t, s.full(recheckBytes+1), "looked again after many bytes")
}

func TestFullOfHistoryMakesRoom(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir(), DefaultBudget: 400 << 10})
	in, c := consumeInto(t, b)
	body := string(make([]byte, 10<<10))
	first := put(t, b, "birch", body)
	var last mq.Position
	require.NoError(t, c.Ack(in.await(t, 1)...))
	for n := 2; n <= 120; n++ {
		last = put(t, b, "birch", body)
		require.NoError(t, c.Ack(in.await(t, n)[n-1]))
	}
	st := statusOf(t, b, "birch")
	require.Less(t, st.Bytes, uint64(400<<10))
	require.Greater(t, st.Chunks, uint64(20), "only a portion is purged")
	err := b.Replay(t.Context(), mq.Topic{Tenant: "birch", Table: "t"}, first, last, nil)
	var gap *mq.ReplayGap
	require.ErrorAs(t, err, &gap)
	require.Equal(t, mq.GapRetention, gap.Reason)
	n := 0
	require.NoError(t, b.Replay(t.Context(), mq.Topic{Tenant: "birch", Table: "t"}, gap.First.Prev(), last, func(mq.Chunk, mq.Position) error { n++; return nil }))
	require.EqualValues(t, st.Chunks, n)
	require.EqualValues(t, 120-n, testutil.ToFloat64(b.metrics.early.WithLabelValues("birch")))
}

// TestStoreThatClosedItself closes the streams below the broker, as the
// server does when it may not write.
func TestStoreThatClosedItself(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir(), WatchInterval: 10 * time.Millisecond, resetEvery: time.Millisecond, lostAfter: 300 * time.Millisecond})
	in, c := consumeInto(t, b)
	feed := &box[string]{}
	_, err := b.Feed(t.Context(), mqtest.Viewing(func(c mq.Chunk, _ mq.Position) { feed.add(string(c.Body)) }))
	require.NoError(t, err)
	var want []string
	for n := range 60 {
		if n%20 == 10 {
			require.NoError(t, b.host.server.Load().ShutdownJetStream())
		}
		body := fmt.Sprint("chunk ", n)
		ch := mqtest.Chunk("birch", "t", body)
		ch.ID = body
		require.Eventually(t, func() bool {
			_, err := b.Publish(t.Context(), ch)
			return err == nil
		}, time.Minute, 10*time.Millisecond)
		want = append(want, body)
	}
	require.Equal(t, want, bodies(in.await(t, 60)))
	require.Equal(t, want, feed.await(t, 60))
	require.NoError(t, c.Ack(in.list()...))
	require.Empty(t, c.Failed())
	require.Zero(t, statusOf(t, b, "birch").Pending)
}

func TestLostConnection(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir(), WatchInterval: 5 * time.Millisecond})
	in, _ := consumeInto(t, b)
	feed := &box[string]{}
	_, err := b.Feed(t.Context(), mqtest.Viewing(func(c mq.Chunk, _ mq.Position) { feed.add(string(c.Body)) }))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 5 {
			time.Sleep(20 * time.Millisecond)
			_ = b.host.pub.ForceReconnect()
		}
	}()
	stored := 0
	for n := 0; ; n++ {
		ch := mqtest.Chunk("birch", "t", fmt.Sprint(n))
		ch.ID = fmt.Sprint(n)
		for {
			_, err := b.Publish(t.Context(), ch)
			if err == nil {
				break
			}
			require.True(t, errors.Is(err, mq.ErrOutcomeUnknown) || errors.Is(err, mq.ErrUnavailable), "%v", err)
		}
		stored++
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	got := in.await(t, stored)
	require.Len(t, got, stored)
	require.Equal(t, bodies(got), feed.await(t, stored))
}

// TestFeedFillsHoles stores a chunk whose answer nobody gets.
func TestFeedFillsHoles(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	feed := &box[mq.Position]{}
	_, err := b.Feed(t.Context(), mqtest.Viewing(func(_ mq.Chunk, p mq.Position) { feed.add(p) }))
	require.NoError(t, err)
	put(t, b, "birch", "0")
	for n := range 30 {
		c := mqtest.Chunk("birch", "t", fmt.Sprint(n))
		require.NoError(t, b.host.pub.PublishMsg(&nats.Msg{Subject: jetstream.Subject(ingestSubjects, c.Topic), Header: jetstream.EncodeChunk(&c), Data: c.Body}))
		put(t, b, "birch", "answered")
		put(t, b, "birch", "answered")
	}
	for n, pos := range feed.await(t, 91) {
		require.EqualValues(t, n+1, seqOf(pos))
	}
}

// TestChunkWhoseAnswerWasLost: a chunk that is stored and that nobody heard of
// reaches the worker and the feeds without another one behind it.
func TestChunkWhoseAnswerWasLost(t *testing.T) {
	for name, hear := range map[string]func(*testing.T, *Broker, mq.Chunk){
		"sent again under its id": func(t *testing.T, b *Broker, c mq.Chunk) {
			pos, err := b.Publish(t.Context(), c)
			require.NoError(t, err)
			require.EqualValues(t, 2, seqOf(pos))
		},
		"never sent again": func(t *testing.T, b *Broker, _ mq.Chunk) {
			require.NoError(t, b.host.pub.ForceReconnect())
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, Options{Dir: t.TempDir(), WatchInterval: 5 * time.Millisecond})
			in, _ := consumeInto(t, b)
			feed := &box[mq.Position]{}
			_, err := b.Feed(t.Context(), mqtest.Viewing(func(_ mq.Chunk, p mq.Position) { feed.add(p) }))
			require.NoError(t, err)
			put(t, b, "birch", "first")
			c := mqtest.Chunk("birch", "t", "unheard")
			c.ID = "unheard"
			require.NoError(t, b.host.pub.PublishMsg(&nats.Msg{Subject: jetstream.Subject(ingestSubjects, c.Topic), Header: jetstream.EncodeChunk(&c), Data: c.Body}))
			require.NoError(t, b.host.pub.Flush())
			hear(t, b, c)
			require.Equal(t, []string{"first", "unheard"}, bodies(in.await(t, 2)))
			require.EqualValues(t, 2, seqOf(feed.await(t, 2)[1]))
		})
	}
}

// TestLostAnswerIsGivenOnce: a send that fails on a connection whose loss has
// already ended the message is not undone twice.
func TestLostAnswerIsGivenOnce(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	put(t, b, "birch", "opens the queue")
	b.host.pub.Close()
	for range 200 {
		var fails sync.WaitGroup
		fails.Go(func() { b.pubs.Fail(mq.ErrOutcomeUnknown) })
		_, err := b.Publish(t.Context(), mqtest.Chunk("birch", "t", "refused"))
		require.Error(t, err)
		fails.Wait()
	}
	q := b.queue("birch")
	require.True(t, q.inFlight.TryAcquire(maxInFlight), "all of it is free again, once")
}
