package embedded

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// feeds is who watches chunks arrive.
type feeds struct {
	// list is replaced whole, so that a publish without feeds reads one
	// pointer.
	list atomic.Pointer[[]*feed]
	mu   sync.Mutex
}

// feed is one live subscription. Its lock is held for reading during handler
// calls, so Close can wait for them.
type feed struct {
	owner  *feeds
	viewer mq.Viewer
	mu     sync.RWMutex
	closed bool
}

// Feed implements mq.Feeder. Calls for different tenants may overlap; they must
// not close the feed.
func (b *Broker) Feed(ctx context.Context, v mq.Viewer) (mq.Feed, error) {
	if err := b.life.Enter(); err != nil {
		return nil, err
	}
	defer b.life.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := &feed{owner: b.feeds, viewer: v}
	b.feeds.change(func(l []*feed) []*feed { return append(l, f) })
	return f, nil
}

func (fs *feeds) change(edit func([]*feed) []*feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	next := edit(append([]*feed(nil), fs.current()...))
	fs.list.Store(&next)
}

func (fs *feeds) current() []*feed {
	if p := fs.list.Load(); p != nil {
		return *p
	}
	return nil
}

func (fs *feeds) deliver(c mq.Chunk, pos mq.Position) {
	for _, f := range fs.current() {
		f.show(func(v *mq.Viewer) { v.Chunk(c, pos) })
	}
}

func (fs *feeds) missed(h mq.Hole) {
	for _, f := range fs.current() {
		f.show(func(v *mq.Viewer) { v.Hole(h) })
	}
}

func (fs *feeds) closeAll() {
	for _, f := range fs.current() {
		f.Close()
	}
}

func (f *feed) show(what func(*mq.Viewer)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !f.closed {
		what(&f.viewer)
	}
}

// Close implements mq.Feed.
func (f *feed) Close() {
	f.owner.change(func(l []*feed) []*feed {
		return slices.DeleteFunc(l, func(other *feed) bool { return other == f })
	})
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
}

// feed shows a chunk to the feeds in the order of the stream. A sequence that
// was skipped belongs to a chunk whose answer was lost: it is read from the
// stream, and what arrives meanwhile waits for it there.
func (q *queue) feed(epoch, seq uint64, c mq.Chunk) {
	q.feedMu.Lock()
	defer q.feedMu.Unlock()
	switch {
	case seq < q.fed:
	case q.filling:
		q.target = max(q.target, seq)
	case seq == q.fed || len(q.b.feeds.current()) == 0:
		q.fed = seq + 1
		q.b.feeds.deliver(c, mq.NewPosition(epoch, seq))
	default:
		q.fillLocked(seq)
	}
}

// feedFound shows the feeds what is stored up to seq and was not announced.
func (q *queue) feedFound(seq uint64) {
	q.feedMu.Lock()
	defer q.feedMu.Unlock()
	switch {
	case seq < q.fed:
	case q.filling:
		q.target = max(q.target, seq)
	case len(q.b.feeds.current()) == 0:
		q.fed = seq + 1
	default:
		q.fillLocked(seq)
	}
}

// adoptFeed sets where the feeds stand after a stream was opened. Again means
// that they have seen it before: what they missed is read.
func (q *queue) adoptFeed(last uint64, again bool) {
	q.feedMu.Lock()
	defer q.feedMu.Unlock()
	if !again || len(q.b.feeds.current()) == 0 || last < q.fed {
		q.fed = last + 1
		return
	}
	if q.filling {
		q.target = max(q.target, last)
		return
	}
	q.fillLocked(last)
}

func (q *queue) fillLocked(target uint64) {
	if q.b.life.Enter() != nil {
		return
	}
	q.filling, q.target = true, target
	go func() {
		defer q.b.life.Leave()
		q.fill()
	}()
}

// fill reads what the feeds missed until they have seen it all.
func (q *queue) fill() {
	for q.b.ctx.Err() == nil {
		q.feedMu.Lock()
		if q.fed > q.target {
			q.filling = false
			q.feedMu.Unlock()
			return
		}
		from := q.fed
		q.feedMu.Unlock()
		msgs, err := q.b.reads.From(q.b.ctx, ingestStream(q.tenant), "", from, jetstream.ReadBatch, jetstream.ReadBytes)
		switch {
		case errors.Is(err, jetstream.ErrNoMessage):
			q.missed()
		case err != nil:
			q.log.Warn("live feed is behind", "error", err)
			lifetime.Pause(q.b.ctx, 200*time.Millisecond)
		default:
			q.show(msgs)
		}
	}
}

// missed gives up on what cannot be read.
func (q *queue) missed() {
	epoch, _ := q.stands()
	q.feedMu.Lock()
	defer q.feedMu.Unlock()
	q.skipLocked(epoch, q.target+1)
}

// skipLocked goes on with next, and tells of what is left out.
func (q *queue) skipLocked(epoch, next uint64) {
	q.log.Warn("live feed skips chunks that are gone", "from", q.fed, "to", next-1)
	q.b.feeds.missed(mq.Hole{From: mq.NewPosition(epoch, q.fed-1), Until: mq.NewPosition(epoch, next-1), Gone: true})
	q.fed = next
}

func (q *queue) show(msgs []jetstream.Stored) {
	epoch, _ := q.stands()
	q.feedMu.Lock()
	defer q.feedMu.Unlock()
	for _, m := range msgs {
		if m.Seq < q.fed {
			continue
		}
		if m.Seq > q.fed {
			q.skipLocked(epoch, m.Seq)
		}
		q.fed = m.Seq + 1
		q.b.feeds.deliver(jetstream.DecodeChunk(m.Subject, m.Header, m.Data), mq.NewPosition(epoch, m.Seq))
	}
}
