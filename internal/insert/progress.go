package insert

import (
	"hash/maphash"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Progress is how far the worker is with one table.
type Progress struct {
	// Frontier is the position up to which every chunk of the table is written
	// or parked; zero when this worker has not seen enough to know.
	Frontier mq.Position
	// Quiet says that nothing of the table beyond Frontier is written, and
	// that no INSERT into it is under way.
	Quiet bool
	// Writes changes when a write of the table begins. Two quiet looks with
	// the same count had no write between them.
	Writes uint64
}

// progress is what the worker remembers for Progress. It is guarded by the
// worker's mutex.
type progress struct {
	seed maphash.Seed
	// delivered is the newest chunk that came, by tenant.
	delivered map[tenant.ID]mq.Position
	// writes counts begun flights. Tables share counters, which at worst makes
	// a quiet table look busy.
	writes [1024]uint64
}

func newProgress() *progress {
	return &progress{seed: maphash.MakeSeed(), delivered: make(map[tenant.ID]mq.Position)}
}

func (p *progress) counter(t mq.Topic) *uint64 {
	return &p.writes[maphash.Comparable(p.seed, t)%uint64(len(p.writes))]
}

// came notes a chunk that is in hand from now on.
func (p *progress) came(c *chunk) {
	at := c.key.pos
	if order, ok := at.Compare(p.delivered[c.key.tenant]); !ok || order > 0 {
		p.delivered[c.key.tenant] = at
	}
}

// Progress says how far the worker is with a table now.
func (w *Worker) Progress(t mq.Topic) Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := Progress{Quiet: true, Writes: *w.progress.counter(t)}
	b := w.batchers[t]
	if b != nil && len(b.handedBack) >= maxOwed {
		return Progress{Writes: p.Writes} // more is owed than is remembered
	}
	p.Frontier = w.progress.delivered[t.Tenant]
	if b == nil {
		return p
	}
	for key, c := range w.inHand {
		if c.topic == t {
			p.Frontier = before(p.Frontier, key.pos)
		}
	}
	for at := range b.handedBack {
		p.Frontier = before(p.Frontier, at)
	}
	p.Quiet = !b.flying && !b.partWritten() && !p.Frontier.Before(b.written)
	return p
}

// partWritten reports whether rows of a chunk that is kept are written, or may
// be. No flight is under way.
func (b *batcher) partWritten() bool {
	for _, j := range b.kept {
		if !j.untouched() {
			return true
		}
	}
	return false
}

// before moves a frontier in front of a chunk that is not done with.
func before(f, at mq.Position) mq.Position {
	if order, ok := at.Compare(f); ok && order <= 0 {
		return at.Prev()
	}
	return f
}
