package stream

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// queue is a broker that a random world drives.
type queue interface {
	broker() Broker
	put(c mq.Chunk) error
	// sweep removes some of the oldest chunks and says how many.
	sweep() (int, error)
	// restart closes and opens the queue; nothing else runs.
	restart() error
	close()
}

type memoryWorld struct{ b *memoryBroker }

func (w memoryWorld) broker() Broker       { return w.b }
func (w memoryWorld) put(c mq.Chunk) error { w.b.publish(c); return nil }
func (w memoryWorld) restart() error       { return nil }
func (w memoryWorld) close()               {}

func (w memoryWorld) sweep() (int, error) {
	w.b.mu.Lock()
	n := len(w.b.queue(tenant.Default).chunks)
	w.b.mu.Unlock()
	keep := min(n, 20)
	w.b.purge(tenant.Default, keep)
	return n - keep, nil
}

// embeddedWorld is the real queue, with a worker that acknowledges everything.
type embeddedWorld struct {
	dir        string
	b          *embedded.Broker
	worker     mq.Consumption
	deliveries chan mq.Delivery
	acking     sync.WaitGroup
}

func (w *embeddedWorld) open() error {
	b, err := embedded.New(embedded.Options{Dir: w.dir, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return err
	}
	deliveries := make(chan mq.Delivery, 10000)
	w.worker, err = b.Consume(context.Background(), mqtest.Work(func(d mq.Delivery) { deliveries <- d }))
	if err != nil {
		return err
	}
	w.b, w.deliveries = b, deliveries
	w.acking.Go(func() {
		for d := range deliveries {
			_ = w.worker.Ack(d)
		}
	})
	return nil
}

func (w *embeddedWorld) broker() Broker { return w.b }

func (w *embeddedWorld) put(c mq.Chunk) error {
	_, err := w.b.Publish(context.Background(), c)
	return err
}

func (w *embeddedWorld) sweep() (int, error) {
	purged, err := w.b.Purge(context.Background(), map[tenant.ID]time.Time{tenant.Default: time.Now().Add(-50 * time.Millisecond)})
	return int(purged[tenant.Default]), err
}

func (w *embeddedWorld) restart() error {
	w.close()
	return w.open()
}

func (w *embeddedWorld) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = w.worker.Stop(ctx)
	close(w.deliveries)
	w.acking.Wait()
	_ = w.b.Close(ctx)
}

// world is one random run: traffic, readers, and what befalls them.
type world struct {
	t     *testing.T
	q     queue
	rig   atomic.Pointer[rig]
	o     Options
	swept atomic.Int64 // rows of the table that were removed, at most
	final atomic.Uint64
	// resumes counts connections that continued from an id.
	resumes atomic.Int64
	ended   atomic.Bool
	chunks  []uint64 // the last row of each chunk, so far
	gone    int      // chunks removed
	next    uint64
}

func (w *world) start() { w.rig.Store(newRig(w.t, w.q.broker(), w.o, nil)) }

// publish puts one random chunk.
func (w *world) publish(rnd *rand.Rand) {
	count := 1 + rnd.IntN(12)
	page := strings.Repeat("p", rnd.IntN(3000))
	c := rowsChunk(testTable)
	if rnd.IntN(4) == 0 {
		c.Table, count = "other", 1
		c.Body = testRow(nil, 0, page)
	} else {
		for range count {
			w.next++
			c.Body = testRow(c.Body, w.next, page)
		}
	}
	c.Rows, c.Received = count, time.Now()
	require.NoError(w.t, w.q.put(c))
	w.chunks = append(w.chunks, w.next)
}

func (w *world) sweep() {
	n, err := w.q.sweep()
	require.NoError(w.t, err)
	if w.gone += n; w.gone > 0 {
		w.swept.Store(int64(w.chunks[w.gone-1]))
	}
}

func (w *world) restart() {
	w.rig.Load().stop()
	require.NoError(w.t, w.q.restart())
	w.start()
}

// reader follows the table through disconnects and stalls, and keeps account.
type reader struct {
	w    *world
	rnd  *rand.Rand
	id   string
	last uint64
	gap  bool
	// skips are the rows that came first after a gap.
	skips  []uint64
	faults []string
}

func (r *reader) run() {
	for !r.done() {
		s, err := r.w.rig.Load().tryOpen(testTable, r.id, "")
		if err != nil {
			time.Sleep(time.Millisecond) // the server is restarting
			continue
		}
		if r.id != "" {
			r.w.resumes.Add(1)
		}
		r.follow(s)
		s.Close()
	}
}

func (r *reader) done() bool {
	return len(r.faults) > 0 || r.w.ended.Load() || (r.w.final.Load() > 0 && r.last >= r.w.final.Load())
}

// follow reads a while and leaves.
func (r *reader) follow(s *streamtest.Stream) {
	leave := 1 + r.rnd.IntN(400)
	for i := 0; (i < leave || r.w.final.Load() > 0) && !r.done(); i++ {
		f, err := s.Next()
		r.id = s.LastID()
		if err != nil || f.EndReason() != "" {
			return
		}
		r.see(f)
		if r.rnd.IntN(200) == 0 {
			time.Sleep(time.Duration(r.rnd.IntN(60)) * time.Millisecond)
		}
	}
}

func (r *reader) see(f streamtest.Frame) {
	if f.Event == "gap" {
		r.gap = true
	}
	if !f.IsRow() {
		return
	}
	n, err := numberOf(f)
	switch {
	case err != nil:
		r.faults = append(r.faults, err.Error())
	case r.last == 0 || n == r.last+1:
	case n <= r.last:
		r.faults = append(r.faults, fmt.Sprintf("row %d after %d", n, r.last))
	case !r.gap:
		r.faults = append(r.faults, fmt.Sprintf("row %d after %d without a gap event", n, r.last))
	default:
		r.skips = append(r.skips, n)
	}
	r.last, r.gap = n, false
}

var worldSeed = flag.Uint64("world.seed", 1, "what random worlds draw from; 0 is drawn anew, to search on")

func runWorld(t *testing.T, q queue, rounds, batch int, sweeps bool) {
	w := &world{t: t, q: q, o: Options{QueueBytes: 32 << 10, ReplayBatchBytes: batch, MaxReplays: 2, IDs: idsUnder("the same after a restart")}}
	w.start()
	seed := *worldSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-world.seed=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	w.publish(rnd)
	readers := make([]*reader, 6)
	var running sync.WaitGroup
	for i := range readers {
		readers[i] = &reader{w: w, rnd: rand.New(rand.NewPCG(seed, uint64(i+1)))}
		running.Go(readers[i].run)
	}
	begun := time.Now()
	for n := 0; n < rounds || w.resumes.Load() <= int64(len(readers)) && time.Since(begun) < patience; n++ {
		w.publish(rnd)
		switch n := rnd.IntN(400); {
		case n < 2:
			w.restart()
		case n < 20 && sweeps:
			w.sweep()
		case n < 200:
			time.Sleep(time.Duration(rnd.IntN(3)) * time.Millisecond)
		}
	}
	// The last rows are not swept: every reader gets to them.
	for before := w.next; w.next == before; {
		w.publish(rnd)
	}
	w.final.Store(w.next)
	deadline := time.AfterFunc(3*patience, func() { w.ended.Store(true); w.rig.Load().server.CloseClientConnections() })
	running.Wait()
	assert.True(t, deadline.Stop(), "readers are done in time")
	overflows := w.rig.Load().hub.metrics.overflows.WithLabelValues("0")
	for i, r := range readers {
		assert.Empty(t, r.faults, "reader %d", i)
		assert.Equal(t, w.final.Load(), r.last, "reader %d", i)
		for _, n := range r.skips {
			assert.LessOrEqual(t, int64(n), w.swept.Load()+1, "reader %d was told of a gap over rows that are kept", i)
		}
		if !sweeps {
			assert.Empty(t, r.skips)
		}
	}
	t.Logf("%d rows, %d resumes, %.0f overflows since the last restart", w.next, w.resumes.Load(), testutil.ToFloat64(overflows))
	assert.Greater(t, w.resumes.Load(), int64(len(readers)))
	w.rig.Load().stop()
	q.close()
}

func TestRandomReadersMissAndRepeatNothing(t *testing.T) {
	runWorld(t, memoryWorld{newMemoryBroker()}, 800, 8<<10, false)
}

func TestRandomReadersUnderSweeps(t *testing.T) {
	runWorld(t, memoryWorld{newMemoryBroker()}, 800, 8<<10, true)
}

func TestRandomReadersOfTheRealQueue(t *testing.T) {
	w := &embeddedWorld{dir: t.TempDir()}
	require.NoError(t, w.open())
	runWorld(t, w, 500, 200<<10, false)
}

func TestRandomReadersOfTheRealQueueUnderSweeps(t *testing.T) {
	w := &embeddedWorld{dir: t.TempDir()}
	require.NoError(t, w.open())
	runWorld(t, w, 500, 200<<10, true)
}
