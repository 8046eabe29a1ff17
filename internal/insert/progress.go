package insert

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// progress is what the worker remembers for Progress. It is guarded by the
// worker's mutex.
type progress struct {
	seed maphash.Seed
	// delivered is the newest chunk that came of each shard.
	delivered map[mq.Shard]mq.Position
	// writes counts begun batches. Tables share counters, which at worst makes
	// a quiet table look busy.
	writes [1024]uint64
}

func newProgress() *progress {
	p := &progress{seed: maphash.MakeSeed(), delivered: make(map[mq.Shard]mq.Position)}
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
	if order, ok := at.Compare(p.delivered[shard]); !ok || order > 0 {
		p.delivered[shard] = at
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
	if b != nil && len(b.handedBack) >= maxOwed {
		return notice.Progress{Writes: p.Writes}, true // more is owed than is remembered
	}
	p.Frontier = w.progress.delivered[shard]
	if b == nil {
		return p, true
	}
	for key, c := range w.held {
		if c.topic == t {
			p.Frontier = before(p.Frontier, key.pos)
		}
	}
	for at := range b.handedBack {
		p.Frontier = before(p.Frontier, at)
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
