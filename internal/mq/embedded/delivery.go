package embedded

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// delivery is one chunk in the worker's hands.
type delivery struct {
	source  *source
	chunk   mq.Chunk
	epoch   uint64
	seq     uint64
	attempt int
}

func (d *delivery) Chunk() mq.Chunk       { return d.chunk }
func (d *delivery) Position() mq.Position { return mq.NewPosition(d.epoch, d.seq) }

// Attempt counts from 1 again after a restart of the process.
func (d *delivery) Attempt() int { return d.attempt }

// Nak implements mq.Delivery. A delivery that ended before is left alone.
func (d *delivery) Nak(delay time.Duration) error {
	s := d.source
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	a := s.out[d.seq]
	if a == nil || a.n != d.attempt {
		return nil
	}
	s.returnLocked(d.seq)
	a.at = time.Now().Add(max(delay, 0))
	heap.Push(&s.due, dueItem{a.at, a.seq})
	s.wakeUp()
	return nil
}

// Extend implements mq.Delivery. It fails when the delivery is over: handed
// back, acknowledged, or out for too long.
func (d *delivery) Extend() error {
	s := d.source
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	a := s.out[d.seq]
	if a == nil || a.n != d.attempt {
		return fmt.Errorf("extend delivery %d of tenant %s: it is over", d.seq, s.q.tenant)
	}
	a.at = time.Now().Add(s.q.b.o.AckWait)
	heap.Push(&s.due, dueItem{a.at, a.seq})
	return nil
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
