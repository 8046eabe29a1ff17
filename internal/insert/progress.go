package insert

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// progress is what the worker remembers for Progress. It is guarded by the
// worker's mutex.
type progress struct {
	seed maphash.Seed
	// delivered is the newest chunk that came of each shard.
	delivered map[mq.Shard]arrival
	// writes counts begun batches. Tables share counters, which at worst makes
	// a quiet table look busy.
	writes [1024]uint64
}

// arrival is a chunk that came, and when the gate took it.
type arrival struct {
	at       mq.Position
	received time.Time
}

func newProgress() *progress {
	p := &progress{seed: maphash.MakeSeed(), delivered: make(map[mq.Shard]arrival)}
	for i := range p.writes {
		p.writes[i] = rand.Uint64() // another worker's counts are others
	}
	return p
}

func (p *progress) counter(t mq.Topic) *uint64 {
	return &p.writes[maphash.Comparable(p.seed, t)%uint64(len(p.writes))]
}

// came notes a chunk that is held from now on.
func (p *progress) came(c *held) {
	at, shard := c.pos, c.delivery.Shard()
	if order, ok := at.Compare(p.delivered[shard].at); !ok || order > 0 {
		p.delivered[shard] = arrival{at, c.header.Received}
	}
}

// Progress says how far the worker is with a table now; false when the table is
// another's.
func (w *Worker) Progress(t mq.Topic) (p notice.Progress, ours bool) {
	select {
	case <-w.started:
	default:
		return p, false
	}
	shard, ours := w.consumption.Shard(t)
	if !ours {
		return p, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p = notice.Progress{Quiet: true, Writes: *w.progress.counter(t)}
	b := w.batchers[t]
	newest := w.progress.delivered[shard]
	passer, passes := w.consumption.(mq.Passer)
	if b != nil && len(b.handedBack) >= maxOwed || passes && passer.Passed(t) {
		return notice.Progress{Writes: p.Writes}, true // more is owed than is remembered
	}
	// What was stored behind the newest was acknowledged after that one was taken.
	p.Frontier, p.Since = newest.at, newest.received
	if b == nil {
		return p, true
	}
	for at, c := range b.held {
		p.Frontier, p.Since = before(p.Frontier, at), earlier(p.Since, c.header.Received)
	}
	for at, received := range b.handedBack {
		p.Frontier, p.Since = before(p.Frontier, at), earlier(p.Since, received)
	}
	order, comparable := b.written.Compare(p.Frontier)
	p.Quiet = !b.writing && !b.partWritten() && comparable && order <= 0
	return p, true
}

// partWritten reports whether rows of a chunk that is kept are written, or may
// be. No batch is being written.
func (b *batcher) partWritten() bool {
	return slices.ContainsFunc(b.kept, func(i insertion) bool { return !i.untouched() })
}

// before moves a frontier in front of a chunk that is not done with.
func before(f, at mq.Position) mq.Position {
	if order, ok := at.Compare(f); ok && order <= 0 {
		return at.Prev()
	}
	return f
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
