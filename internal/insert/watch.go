package insert

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// Bounds of what is remembered for callers that wait for their rows.
const (
	// maxWatches bounds the callers that wait at the same time.
	maxWatches = 1024
	// maxRecentChunks bounds, per table, the settled chunks remembered while a
	// caller does not know yet which are its own: those of its publish's time.
	maxRecentChunks = 4096
	// maxWatchedRows bounds, per table, the parked rows remembered. Beyond it a
	// chunk with parked rows counts as not known.
	maxWatchedRows = 20_000
)

// ErrTooManyWatches says that as many callers wait for their rows as may.
var ErrTooManyWatches = errors.New("too many requests wait for their rows to be inserted")

// ParkedRow is a row that ClickHouse refused: it is a dead letter.
type ParkedRow struct {
	// Row is its index in the chunk, from 0.
	Row int
	// Code and Message are those of the dead letter.
	Code, Message string
}

// Settled is what became of a chunk whose rows are all written or parked.
type Settled struct {
	Parked []ParkedRow
	// Unknown says that some rows are parked, and no longer known which.
	Unknown bool
}

// watches tell callers what became of their chunks. They cost the worker
// nothing for tables that nobody waits for.
type watches struct {
	mu     sync.Mutex
	count  int
	topics map[mq.Topic]*watched
}

// watched is one table that callers wait for. It is forgotten with the last.
type watched struct {
	// watchers counts the callers; waiting has those that know their chunks.
	watchers int
	waiting  map[mq.Position][]*Watch
	// recent holds settled chunks in the order of ring, whose oldest is at next.
	recent map[mq.Position]Settled
	ring   []mq.Position
	next   int
	// open holds the parked rows of chunks that are not settled yet.
	open map[mq.Position]Settled
	rows int
}

func newWatches() *watches { return &watches{topics: make(map[mq.Topic]*watched)} }

// Watch is one caller's view of a table's chunks, from its making until Close.
type Watch struct {
	all   *watches
	topic mq.Topic
	// wake has room for one.
	wake chan struct{}
	// wanted are the chunks waited for, found those settled; guarded by all.mu.
	wanted map[mq.Position]struct{}
	found  map[mq.Position]Settled
}

// Watch begins to take note of what becomes of the table's chunks. It must be
// called before they are published, and closed. The error is ErrTooManyWatches.
func (w *Worker) Watch(t mq.Topic) (*Watch, error) { return w.watches.watch(t) }

func (a *watches) watch(t mq.Topic) (*Watch, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count >= maxWatches {
		return nil, ErrTooManyWatches
	}
	a.count++
	on := a.topics[t]
	if on == nil {
		on = &watched{
			waiting: make(map[mq.Position][]*Watch), recent: make(map[mq.Position]Settled), open: make(map[mq.Position]Settled),
		}
		a.topics[t] = on
	}
	on.watchers++
	return &Watch{all: a, topic: t, wake: make(chan struct{}, 1)}, nil
}

// Close ends the watch.
func (v *Watch) Close() {
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	on := v.all.topics[v.topic]
	v.all.count--
	if on.watchers--; on.watchers == 0 {
		delete(v.all.topics, v.topic)
		return
	}
	for at := range v.wanted {
		on.leave(at, v)
	}
}

func (on *watched) leave(at mq.Position, v *Watch) {
	others := slices.DeleteFunc(on.waiting[at], func(o *Watch) bool { return o == v })
	if len(others) == 0 {
		delete(on.waiting, at)
		return
	}
	on.waiting[at] = others
}

// Wait returns once all chunks are settled, or when ctx ends, with what became
// of those that are. It is called once.
func (v *Watch) Wait(ctx context.Context, chunks []mq.Position) map[mq.Position]Settled {
	v.begin(chunks)
	for {
		if found, all := v.look(); all {
			return found
		}
		select {
		case <-v.wake:
		case <-ctx.Done():
			found, _ := v.look()
			return found
		}
	}
}

func (v *Watch) begin(chunks []mq.Position) {
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	on := v.all.topics[v.topic]
	v.wanted, v.found = make(map[mq.Position]struct{}), make(map[mq.Position]Settled)
	for _, at := range chunks {
		if s, ok := on.recent[at]; ok {
			v.found[at] = s
		} else if _, twice := v.wanted[at]; !twice {
			v.wanted[at] = struct{}{}
			on.waiting[at] = append(on.waiting[at], v)
		}
	}
}

func (v *Watch) look() (found map[mq.Position]Settled, all bool) {
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	return maps.Clone(v.found), len(v.wanted) == 0
}

// on says whether anybody waits for the table's chunks.
func (a *watches) on(t mq.Topic) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.topics[t] != nil
}

// parked notes rows that have become dead letters.
func (a *watches) parked(letters []mq.DeadLetter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range letters {
		l := &letters[i]
		on := a.topics[l.Topic]
		if on == nil {
			continue
		}
		s := on.open[l.Source]
		if l.Version == "" || on.rows >= maxWatchedRows {
			s.Unknown = true
		} else {
			s.Parked = append(s.Parked, ParkedRow{Row: l.SourceRow, Code: l.Code, Message: excerpt.Cut(l.Error, maxWatchedMessage)})
			on.rows++
		}
		on.open[l.Source] = s
	}
}

// maxWatchedMessage bounds what is repeated of a row's error, in bytes.
const maxWatchedMessage = 512

// settled notes chunks whose rows are all written or parked.
func (a *watches) settled(t mq.Topic, chunks []mq.Position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	on := a.topics[t]
	if on == nil {
		return
	}
	for _, at := range chunks {
		s := on.open[at]
		delete(on.open, at)
		on.remember(at, s)
		for _, v := range on.waiting[at] {
			v.settle(at, s)
		}
		delete(on.waiting, at)
	}
}

// remember keeps a settled chunk and forgets the oldest.
func (on *watched) remember(at mq.Position, s Settled) {
	if len(on.ring) < maxRecentChunks {
		on.ring = append(on.ring, at)
	} else {
		oldest := on.ring[on.next]
		on.rows -= len(on.recent[oldest].Parked)
		delete(on.recent, oldest)
		on.ring[on.next] = at
		on.next = (on.next + 1) % maxRecentChunks
	}
	on.recent[at] = s
}

func (v *Watch) settle(at mq.Position, s Settled) {
	delete(v.wanted, at)
	v.found[at] = s
	select {
	case v.wake <- struct{}{}:
	default:
	}
}
