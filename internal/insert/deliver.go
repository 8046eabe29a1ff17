package insert

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// deliver takes one delivery and gives it to its table's batcher. It blocks
// while its tenant's share of memory is used up, which delays that tenant alone.
func (w *Worker) deliver(d mq.Delivery) {
	<-w.started
	if w.known(d) {
		return
	}
	c := w.open(d)
	b := w.hold(c)
	if b == nil {
		w.refuse(d)
		return
	}
	delay, ok := w.admit(b, c)
	w.mu.Lock()
	if b.admitting--; ok {
		w.gather(b, c)
	} else {
		b.owe(c)
	}
	if b.admitting == 0 {
		w.left.Broadcast()
	}
	w.mu.Unlock()
	if !ok {
		w.handBack(b, delay, c)
	}
}

// open judges a delivery by its header; its rows are not parsed.
func (w *Worker) open(d mq.Delivery) *held {
	m := d.Chunk()
	c := &held{topic: m.Topic, header: m.Header, pos: d.Position(), delivery: d}
	if c.Chunk, c.unreadable = w.chunks.Open(m); c.unreadable != nil {
		c.Chunk = chunk.Chunk{Body: m.Body, Rows: 1}
	} else {
		c.header.Encoding, c.header.IDs = "", 0
	}
	c.left = c.Rows
	return c
}

// known sees to a chunk that is held already, or done with.
func (w *Worker) known(d mq.Delivery) bool {
	key := heldKey{d.Chunk().Tenant, d.Position()}
	w.mu.Lock()
	c := w.held[key]
	if c != nil {
		c.delivery, c.extended = d, w.o.Now()
	}
	_, done := w.unacked[key]
	w.mu.Unlock()
	if done && w.consumption.Ack(d) == nil {
		w.mu.Lock()
		delete(w.unacked, key)
		w.mu.Unlock()
	}
	return done || c != nil
}

// hold notes a chunk as held and finds its batcher, nil for one of a shard that
// is lost.
func (w *Worker) hold(c *held) *batcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ours := w.shards[c.delivery.Shard()]; !ours {
		return nil
	}
	c.extended = w.o.Now()
	w.held[c.key()] = c
	w.progress.came(c)
	b := w.batchers[c.topic]
	if b == nil {
		b = newBatcher(c.topic, w.o.BackoffMin, w.o.BackoffMax)
		w.batchers[c.topic] = b
		b.resume = w.resumed[c.topic]
		delete(w.resumed, c.topic)
		if w.stopping {
			b.stop()
		}
	}
	delete(b.handedBack, c.pos)
	b.held[c.pos] = c
	b.admitting++
	return b
}

// admit waits for room. It is not ok when the chunk has to go back to the
// queue, for delay: its table is stuck and has its part, or the worker stops.
func (w *Worker) admit(b *batcher, c *held) (delay time.Duration, ok bool) {
	stuck, delay := w.stuck(b)
	taken := w.takenBy(b)
	switch {
	case stuck && taken > 0 && taken+c.size() > w.o.MaxHeldPerTenant/4:
		return delay, false
	case w.memory.TakeFirst(c.topic.Tenant, c.size()):
		return 0, true
	case stuck:
		return delay, false
	}
	w.reclaim(c.topic.Tenant)
	return 0, w.memory.Wait(c.topic.Tenant, c.size(), b.stopped)
}

func (w *Worker) takenBy(b *batcher) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return b.taken
}

// reclaim makes room in a tenant's share: its batches go before they are full,
// and its stuck tables hand back what they hold.
func (w *Worker) reclaim(id tenant.ID) {
	for _, b := range w.hurry(id) {
		stuck, delay := w.stuck(b)
		if !stuck {
			continue
		}
		w.mu.Lock()
		chunks := b.pending
		b.pending, b.rows, b.bytes = nil, 0, 0
		if b.resume != nil {
			b.resume.here = 0
		}
		w.mu.Unlock()
		w.handBack(b, delay, chunks...)
		select {
		case b.giveUp <- struct{}{}:
		default:
		}
	}
}

// stuck reports whether the table itself keeps its rows from being written,
// and in what time it is worth coming again.
func (w *Worker) stuck(b *batcher) (bool, time.Duration) {
	wait, waiting := b.waits.waiting()
	refused, refusing := b.refusals.waiting()
	return waiting || refusing, max(wait, refused, w.o.BackoffMin)
}
