package stream

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// topic is one table's live backlog and its subscribers. It exists while it
// has subscribers.
//
// The backlog is a list of links that nobody but its readers holds: the topic
// knows the open end alone, each subscriber the link it reads next. What every
// reader has passed is garbage; what one reader holds back is bounded by
// detaching it once it is too far behind.
type topic struct {
	mq.Topic
	projector projector
	counts    tenantCounts

	// total is the size of everything ever appended.
	total atomic.Int64
	// queued is set while the topic waits for the hub to wake its readers.
	queued atomic.Bool

	// mu guards the open end. It is held for an append only: the feed waits
	// for it. Never held together with another lock.
	mu  sync.Mutex
	end *link

	// subsMu guards the list of subscribers, in no order.
	subsMu sync.Mutex
	subs   []*subscriber

	silence silence

	groupsMu sync.Mutex
	groups   map[groupKey]*group

	refs int // guarded by the hub's mu
}

// link is one place in the backlog; it is open until its item is set.
type link struct {
	item atomic.Pointer[item]
}

// item is a chunk in the backlog, or a hole, and the way on. behind is the size
// of everything up to and including it.
type item struct {
	chunk  sharedChunk
	hole   *mq.Hole // nil for a chunk
	next   *link
	behind int64
}

// groupKey tells projections apart.
type groupKey struct {
	fingerprint string
	render      record.RenderOptions
}

// group is the subscribers that see a topic the same way.
type group struct {
	key     groupKey
	members atomic.Int32
}

func newTopic(t mq.Topic, counts tenantCounts) *topic {
	return &topic{Topic: t, counts: counts, end: &link{}, groups: make(map[groupKey]*group)}
}

// push adds a chunk at the end. It never blocks for longer than an append.
func (t *topic) push(c mq.Chunk, p mq.Position) {
	t.append(&item{chunk: sharedChunk{Chunk: c, pos: p}, next: &link{}}, size(c))
}

func (t *topic) append(it *item, n int64) {
	t.mu.Lock()
	it.behind = t.total.Add(n)
	t.end.item.Store(it)
	t.end = it.next
	t.mu.Unlock()
}

// attach puts s at the end of the backlog: it gets what is pushed from now on.
func (t *topic) attach(s *subscriber) {
	t.mu.Lock()
	end, total := t.end, t.total.Load()
	t.mu.Unlock()
	s.read.Store(total)
	s.detachedAt.Store(0)
	s.cursor.Store(end)
}

func (t *topic) add(s *subscriber) {
	t.subsMu.Lock()
	defer t.subsMu.Unlock()
	s.index = len(t.subs)
	t.subs = append(t.subs, s)
}

func (t *topic) remove(s *subscriber) {
	s.cursor.Store(nil)
	t.subsMu.Lock()
	defer t.subsMu.Unlock()
	last := len(t.subs) - 1
	t.subs[s.index] = t.subs[last]
	t.subs[s.index].index = s.index
	t.subs[last] = nil
	t.subs = t.subs[:last]
}

// each calls f for every subscriber; f must not block.
func (t *topic) each(f func(*subscriber)) {
	t.subsMu.Lock()
	defer t.subsMu.Unlock()
	for _, s := range t.subs {
		f(s)
	}
}

// wake signals the readers and detaches those that are further behind than
// limit: they go back to history and hold nothing meanwhile.
func (t *topic) wake(limit int64, now time.Time) (detached int) {
	t.queued.Store(false) // before the look: a push after it queues again
	total := t.total.Load()
	t.each(func(s *subscriber) {
		if total-s.read.Load() > limit && s.detach(now) {
			detached++
		}
		s.signal()
	})
	return detached
}

// join moves a subscriber from one group (nil for none) to that of key.
func (t *topic) join(from *group, key groupKey) *group {
	t.groupsMu.Lock()
	defer t.groupsMu.Unlock()
	t.leaveLocked(from)
	g, ok := t.groups[key]
	if !ok {
		g = &group{key: key}
		t.groups[key] = g
	}
	g.members.Add(1)
	return g
}

func (t *topic) leave(g *group) {
	t.groupsMu.Lock()
	defer t.groupsMu.Unlock()
	t.leaveLocked(g)
}

func (t *topic) leaveLocked(g *group) {
	if g != nil && g.members.Add(-1) == 0 {
		delete(t.groups, g.key)
	}
}

// wakeQueue is the topics whose readers must be woken, each at most once.
type wakeQueue struct {
	mu     sync.Mutex
	topics []*topic
	ready  chan struct{} // capacity 1
}

func newWakeQueue() *wakeQueue { return &wakeQueue{ready: make(chan struct{}, 1)} }

func (q *wakeQueue) add(t *topic) {
	if t.queued.Swap(true) {
		return
	}
	q.mu.Lock()
	q.topics = append(q.topics, t)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// takeAll empties the queue into buf.
func (q *wakeQueue) takeAll(buf []*topic) []*topic {
	q.mu.Lock()
	defer q.mu.Unlock()
	buf = append(buf[:0], q.topics...)
	clear(q.topics)
	q.topics = slices.Delete(q.topics, 0, len(q.topics))
	return buf
}
