package insert

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// progress is what the worker remembers for Progress. It is guarded by the
// worker's mutex.
type progress struct {
	seed maphash.Seed
	// delivered is the newest chunk that came, by tenant.
	delivered map[tenant.ID]mq.Position
	// writes counts begun batches. Tables share counters, which at worst makes
	// a quiet table look busy.
	writes [1024]uint64
}

func newProgress() *progress {
	p := &progress{seed: maphash.MakeSeed(), delivered: make(map[tenant.ID]mq.Position)}
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
	at := c.pos
	if order, ok := at.Compare(p.delivered[c.topic.Tenant]); !ok || order > 0 {
		p.delivered[c.topic.Tenant] = at
	}
}

// Progress says how far the worker is with a table now.
func (w *Worker) Progress(t mq.Topic) notice.Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := notice.Progress{Quiet: true, Writes: *w.progress.counter(t)}
	b := w.batchers[t]
	if b != nil && len(b.handedBack) >= maxOwed {
		return notice.Progress{Writes: p.Writes} // more is owed than is remembered
	}
	p.Frontier = w.progress.delivered[t.Tenant]
	if b == nil {
		return p
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
	return p
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
