package embedded

import (
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// delivery is one chunk in the worker's hands.
type delivery struct {
	source *source
	chunk  mq.Chunk
	epoch  uint64
	seq    uint64
	// attempt counts the deliveries of the chunk, from 1 again after a restart.
	attempt int
}

func (d *delivery) Chunk() mq.Chunk       { return d.chunk }
func (d *delivery) Position() mq.Position { return mq.NewPosition(d.epoch, d.seq) }
func (d *delivery) Shard() mq.Shard       { return d.source.shard() }

// Nak implements mq.Delivery. A delivery that ended before is left alone.
func (d *delivery) Nak(delay time.Duration) error {
	if d.putOff(max(delay, 0), false) {
		d.source.wakeUp()
	}
	return nil
}

// Extend implements mq.Delivery. It fails when the delivery is over: handed
// back, acknowledged, or out for too long.
func (d *delivery) Extend() error {
	if !d.putOff(d.source.q.b.o.AckWait, true) {
		return fmt.Errorf("extend delivery %d of tenant %s: it is over", d.seq, d.source.q.tenant)
	}
	return nil
}

// putOff leaves the chunk out, or takes it back, until then; false when the
// delivery is over.
func (d *delivery) putOff(until time.Duration, out bool) bool {
	s := d.source
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	a := s.open[d.seq]
	if a == nil || a.n != d.attempt || !a.out {
		return false
	}
	a.out = out
	s.putOffLocked(a, until)
	return true
}

// dueItem says when to look at a sequence. An item that no longer says what
// the attempt says is stale and dropped when it comes up.
type dueItem struct {
	at  time.Time
	seq uint64
}

type dueHeap []dueItem

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any) {
	if item, ok := x.(dueItem); ok {
		*h = append(*h, item)
	}
}
func (h *dueHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	*h = old[:n]
	return x
}
