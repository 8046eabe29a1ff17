package insert

import (
	"context"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// chunkOverhead is what a held chunk costs in memory beside its body.
	chunkOverhead = 512
	// maxUnacked bounds what is remembered of chunks that are written but whose
	// acknowledgement failed.
	maxUnacked = 100_000
)

// heldKey names a chunk over all tenants.
type heldKey struct {
	tenant tenant.ID
	pos    mq.Position
}

// held is a chunk that the worker holds: from its delivery until it is
// acknowledged or handed back.
type held struct {
	chunk.Chunk
	topic  mq.Topic
	header mq.Header
	pos    mq.Position
	// unreadable says why the chunk could not be opened. Its body is then the
	// message's, and counts as one row.
	unreadable error

	// Guarded by the worker's mutex.
	delivery mq.Delivery
	extended time.Time
	taken    int64 // of the tenant's share

	// Owned by the batch the chunk is in.
	left int // rows neither written nor parked yet
	// claim is of the ids of a chunk that has some; dropped counts the rows that
	// are not inserted because of it.
	claim   claim
	dropped int
}

func (c *held) key() heldKey { return heldKey{c.topic.Tenant, c.pos} }

// size is what the chunk takes of its tenant's share.
func (c *held) size() int64 { return int64(len(c.Body) + chunkOverhead) }

// handBack gives chunks back to the queue, to be delivered again after delay.
func (w *Worker) handBack(b *batcher, delay time.Duration, chunks ...*held) {
	w.mu.Lock()
	for _, c := range chunks {
		b.owe(c)
	}
	w.mu.Unlock()
	for _, d := range w.letGo(b, chunks) {
		if err := d.Nak(delay); err != nil {
			w.o.Logger.Warn("cannot hand a chunk back to the queue; it comes again when its time is up",
				"tenant", b.topic.Tenant, "table", b.topic.Table, "error", err)
		}
	}
}

// ack ends chunks whose rows are all written or parked.
func (w *Worker) ack(b *batcher, done []*held) {
	if len(done) == 0 {
		return
	}
	err := w.consumption.Ack(w.deliveries(done)...)
	for attempt := 1; err != nil && !errors.Is(err, mq.ErrRevoked) && attempt < ackAttempts && lifetime.Pause(w.work, time.Duration(attempt)*ackPause); attempt++ {
		err = w.consumption.Ack(w.deliveries(done)...)
	}
	if errors.Is(err, mq.ErrRevoked) {
		w.o.Logger.Warn("written chunks come again elsewhere: their shard of the queue was lost before",
			"tenant", b.topic.Tenant, "table", b.topic.Table, "chunks", len(done), "error", err)
	} else if err != nil {
		w.o.Logger.Error("cannot acknowledge written chunks; they will be acknowledged when they come again",
			"tenant", b.topic.Tenant, "table", b.topic.Table, "chunks", len(done), "error", err)
	}
	w.mu.Lock()
	for _, c := range done {
		if err != nil && !errors.Is(err, mq.ErrRevoked) && len(w.unacked) < maxUnacked {
			w.unacked[c.key()] = struct{}{}
		}
		b.wrote(c.pos)
	}
	w.mu.Unlock()
	w.letGo(b, done)
}

// An acknowledgement that fails is tried a few times: the rows are written,
// and to deliver them again would write them twice.
const (
	ackAttempts = 4
	ackPause    = 50 * time.Millisecond
)

func (w *Worker) deliveries(chunks []*held) []mq.Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	return deliveriesOf(chunks)
}

func deliveriesOf(chunks []*held) []mq.Delivery {
	ds := make([]mq.Delivery, len(chunks))
	for i, c := range chunks {
		ds[i] = c.delivery
	}
	return ds
}

// letGo forgets chunks and gives their memory back. It returns their last
// deliveries.
func (w *Worker) letGo(b *batcher, chunks []*held) []mq.Delivery {
	var size int64
	w.mu.Lock()
	for _, c := range chunks {
		delete(w.held, c.key())
		delete(b.held, c.pos)
		size += c.taken
	}
	b.taken -= size
	deliveries := deliveriesOf(chunks)
	w.mu.Unlock()
	w.memory.Give(b.topic.Tenant, size)
	return deliveries
}

// extendLoop keeps what is held from being delivered again.
func (w *Worker) extendLoop(ctx context.Context) {
	tick := time.NewTicker(w.extendEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.extend()
		}
	}
}

func (w *Worker) extend() {
	now := w.o.Now()
	var due []mq.Delivery
	w.mu.Lock()
	for _, c := range w.held {
		if now.Sub(c.extended) >= w.extendEvery() {
			c.extended = now
			due = append(due, c.delivery)
		}
	}
	w.mu.Unlock()
	for _, d := range due {
		// A failure is that of a delivery that has just ended, or that comes
		// again and is then known by its position.
		if err := d.Extend(); err != nil {
			w.o.Logger.Debug("cannot extend a delivery", "tenant", d.Chunk().Tenant, "error", err)
		}
	}
}
