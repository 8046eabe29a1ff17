package stream

import (
	"context"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// memoryBroker is a queue of one process's memory with the feed and history of
// a broker. Its tenants share nothing but the lock.
type memoryBroker struct {
	mu     sync.Mutex
	queues map[tenant.ID]*memoryQueue
	feeds  map[int]mq.Viewer
	next   int
	// fail, when set, is what Replay and Tail answer.
	fail error
	// onReplay, when set, runs before each replay.
	onReplay func()
	// afterTail, when set, runs once Tail has looked.
	afterTail func()
}

type memoryQueue struct {
	epoch, last uint64
	chunks      []replayed
}

type memoryFeed struct {
	b  *memoryBroker
	id int
}

func (f memoryFeed) Close() {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	delete(f.b.feeds, f.id)
}

func newMemoryBroker() *memoryBroker {
	return &memoryBroker{queues: map[tenant.ID]*memoryQueue{}, feeds: map[int]mq.Viewer{}}
}

func (b *memoryBroker) queue(t tenant.ID) *memoryQueue {
	q, ok := b.queues[t]
	if !ok {
		q = &memoryQueue{epoch: 77}
		b.queues[t] = q
	}
	return q
}

func (b *memoryBroker) publish(c mq.Chunk) mq.Position {
	p := b.store(c)
	b.show(c, p)
	return p
}

// store makes a chunk durable that the feed shows later.
func (b *memoryBroker) store(c mq.Chunk) mq.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(c.Tenant)
	q.last++
	p := mq.NewPosition(q.epoch, q.last)
	q.chunks = append(q.chunks, replayed{c, p})
	return p
}

func (b *memoryBroker) show(c mq.Chunk, p mq.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.feeds {
		f.Chunk(c, p)
	}
}

// miss stores a chunk that the feed does not show; gone is one that is lost.
func (b *memoryBroker) miss(c mq.Chunk, gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(c.Tenant)
	q.last++
	p := mq.NewPosition(q.epoch, q.last)
	if !gone {
		q.chunks = append(q.chunks, replayed{c, p})
	}
	for _, f := range b.feeds {
		f.Hole(mq.Hole{From: p.Prev(), Until: p, Gone: gone})
	}
}

// purge removes the oldest chunks until keep are left.
func (b *memoryBroker) purge(t tenant.ID, keep int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(t)
	if n := len(q.chunks) - keep; n > 0 {
		q.chunks = append([]replayed(nil), q.chunks[n:]...)
	}
}

// reset empties a tenant's queue, as one that was deleted and made again.
func (b *memoryBroker) reset(t tenant.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(t)
	q.epoch, q.last, q.chunks = q.epoch+1, 0, nil
}

func (b *memoryBroker) Feed(_ context.Context, w mq.Viewer) (mq.Feed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	b.feeds[b.next] = w
	return memoryFeed{b, b.next}, nil
}

func (b *memoryBroker) Tail(_ context.Context, t mq.Topic) (mq.Position, error) {
	if b.afterTail != nil {
		defer b.afterTail()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[t.Tenant]
	if !ok || q.last == 0 || b.fail != nil {
		return mq.Position{}, b.fail
	}
	return mq.NewPosition(q.epoch, q.last), nil
}

func (b *memoryBroker) PositionAt(_ context.Context, t mq.Topic, at time.Time) (mq.Position, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[t.Tenant]
	if !ok || q.last == 0 {
		return mq.Position{}, b.fail
	}
	for _, r := range q.chunks {
		if !r.chunk.Received.Before(at) {
			return r.pos.Prev(), b.fail
		}
	}
	return mq.NewPosition(q.epoch, q.last), b.fail
}

func (b *memoryBroker) Replay(ctx context.Context, t mq.Topic, from, until mq.Position, handle func(mq.Chunk, mq.Position) error) error {
	if b.onReplay != nil {
		b.onReplay()
	}
	found, err := b.history(t, from, until)
	if err != nil {
		return err
	}
	for _, r := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := handle(r.chunk, r.pos); err != nil {
			return err
		}
	}
	return nil
}

func (b *memoryBroker) history(t mq.Topic, from, until mq.Position) ([]replayed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return nil, b.fail
	}
	q := b.queue(t.Tenant)
	first := mq.NewPosition(q.epoch, q.last+1)
	if len(q.chunks) > 0 {
		first = q.chunks[0].pos
	}
	switch epoch, after := mq.SplitPosition(from); {
	case !from.IsZero() && epoch != q.epoch:
		return nil, &mq.ReplayGap{Reason: GapReset, First: first}
	case mq.NewPosition(q.epoch, after).Before(first.Prev()):
		return nil, &mq.ReplayGap{Reason: GapRetention, First: first}
	}
	var found []replayed
	for _, r := range q.chunks {
		if r.chunk.Table == t.Table && from.Before(r.pos) && !until.Before(r.pos) {
			found = append(found, r)
		}
	}
	return found, nil
}

func (b *memoryBroker) FirstKept(_ context.Context, t mq.Topic) (mq.Position, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[t.Tenant]
	switch {
	case !ok || q.last == 0:
		return mq.Position{}, b.fail
	case len(q.chunks) == 0:
		return mq.NewPosition(q.epoch, q.last+1), b.fail
	case q.chunks[0].pos == mq.NewPosition(q.epoch, 1):
		return mq.Position{}, b.fail
	}
	return q.chunks[0].pos, b.fail
}
