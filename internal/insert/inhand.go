package insert

import (
	"context"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// redelivered handles a chunk that is in hand already, or done with.
func (w *Worker) redelivered(d mq.Delivery) bool {
	key := chunkKey{d.Chunk().Tenant, d.Position()}
	w.mu.Lock()
	c := w.inHand[key]
	if c != nil {
		c.delivery, c.extended = d, w.o.Now()
	}
	_, done := w.unacked[key]
	w.mu.Unlock()
	if c == nil && !done {
		return false
	}
	if done && w.consumption.Ack(d) == nil {
		w.mu.Lock()
		delete(w.unacked, key)
		w.mu.Unlock()
	}
	return true
}

// take puts a chunk in hand and finds its batcher.
func (w *Worker) take(c *chunk) *batcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.extended = w.o.Now()
	w.inHand[c.key] = c
	w.progress.came(c)
	b := w.batchers[c.topic]
	if b == nil {
		b = newBatcher(c.topic, newBackoff(w.o.BackoffMin, w.o.BackoffMax))
		w.batchers[c.topic] = b
	}
	delete(b.handedBack, c.key.pos)
	b.admitting++
	return b
}

// admit waits for room. It is not ok when the chunk has to go back to the
// queue, for delay: its table is stuck and has its share, or the worker stops.
func (w *Worker) admit(b *batcher, c *chunk) (delay time.Duration, ok bool) {
	stuck, delay := w.stuck(b)
	if stuck && (w.heldBy(b)+c.size > w.o.MaxHeldPerTenant/4 || !w.held.TakeFirst(c.key.tenant, c.size)) {
		return delay, false
	}
	if stuck || w.held.TakeFirst(c.key.tenant, c.size) {
		return 0, true
	}
	w.reclaim(c.key.tenant)
	return 0, w.held.Wait(c.key.tenant, c.size, w.stopping)
}

// add gives an admitted chunk to its batcher.
func (w *Worker) add(b *batcher, c *chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.admitting--
	b.held += c.size
	if len(b.pending) == 0 {
		b.first = time.Now()
		b.flush = w.o.Settings(b.topic.Tenant, b.topic.Table).Flush.withDefaults()
	}
	b.pending = append(b.pending, c)
	b.rows += c.rows
	b.bytes += int64(len(c.body))
	if !w.draining {
		w.schedule(b)
	}
}

// ack ends chunks whose rows are all written or parked.
func (w *Worker) ack(b *batcher, done []*chunk) {
	if len(done) == 0 {
		return
	}
	err := w.consumption.Ack(w.deliveries(done)...)
	for attempt := 1; err != nil && attempt < ackAttempts && w.pause(time.Duration(attempt)*ackPause); attempt++ {
		err = w.consumption.Ack(w.deliveries(done)...)
	}
	if err != nil {
		w.o.Logger.Error("cannot acknowledge written chunks; they will be acknowledged when they come again",
			"tenant", b.topic.Tenant, "table", b.topic.Table, "chunks", len(done), "error", err)
	}
	w.mu.Lock()
	for _, c := range done {
		if err != nil && len(w.unacked) < maxUnacked {
			w.unacked[c.key] = struct{}{}
		}
		b.settled(c.key.pos)
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

// pause waits; false when the worker's time is up.
func (w *Worker) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.work.Done():
		return false
	}
}

func (w *Worker) deliveries(cs []*chunk) []mq.Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	ds := make([]mq.Delivery, len(cs))
	for i, c := range cs {
		ds[i] = c.delivery
	}
	return ds
}

// letGo forgets admitted chunks and gives their memory back.
func (w *Worker) letGo(b *batcher, cs []*chunk) {
	var size int64
	w.mu.Lock()
	for _, c := range cs {
		delete(w.inHand, c.key)
		b.held -= c.size
		size += c.size
	}
	w.mu.Unlock()
	w.held.Give(b.topic.Tenant, size)
}

// handBack gives a chunk that was not admitted back to the queue.
func (w *Worker) handBack(b *batcher, delay time.Duration, c *chunk) {
	w.mu.Lock()
	b.admitting--
	b.owe(c.key.pos)
	delete(w.inHand, c.key)
	d := c.delivery
	w.mu.Unlock()
	w.nak(d, delay)
}

func (w *Worker) nak(d mq.Delivery, delay time.Duration) {
	if err := d.Nak(delay); err != nil {
		w.o.Logger.Warn("cannot hand a chunk back to the queue; it comes again when its time is up",
			"tenant", d.Chunk().Tenant, "table", d.Chunk().Table, "error", err)
	}
}

// extendLoop keeps what is in hand from being delivered again.
func (w *Worker) extendLoop(ctx context.Context) {
	tick := time.NewTicker(w.o.ExtendEvery)
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
	for _, c := range w.inHand {
		if now.Sub(c.extended) >= w.o.ExtendEvery {
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
