package ingest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/fairshare"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// Bounds of what is remembered for callers that wait for their rows.
const (
	// maxWatches bounds the callers that wait at the same time, a fair share of
	// which is each tenant's.
	maxWatches = 1024
	// maxRecentChunks bounds, per table, the settled chunks remembered while a
	// caller does not know yet which are its own: those of its publish's time.
	maxRecentChunks = 4096
	// maxWatchedRows bounds, per table, the parked rows remembered. Beyond it a
	// chunk with parked rows counts as not known.
	maxWatchedRows = 20_000
	// floorEvery is how often the queue is asked how far it is, by who waits and
	// may have missed a notice.
	floorEvery = 250 * time.Millisecond
)

// ErrTooManyWatches says that as many callers wait for their rows as may.
var ErrTooManyWatches = errors.New("too many requests wait for their rows to be inserted")

// Settled is what became of a chunk whose rows are all written or parked.
type Settled struct {
	Parked []notice.ParkedRow
	// Unknown says that some rows are parked, or may be, and not which.
	Unknown bool
}

// Watches tell callers what became of their chunks, from the notices of whoever
// writes them. They remember nothing of tables that nobody waits for.
type Watches struct {
	// floor says up to where a table's chunks are written or parked.
	floor func(ctx context.Context, t mq.Topic) (mq.Position, error)
	share *fairshare.Bytes // of one for each watch

	mu     sync.Mutex
	topics map[mq.Topic]*watched
}

// watched is one table that callers wait for. It is forgotten with the last.
type watched struct {
	// watches are the callers'; waiting has those that know their chunks.
	watches map[*Watch]struct{}
	waiting map[mq.Position][]*Watch
	// recent holds settled chunks in the order of ring, whose oldest is at next.
	recent map[mq.Position]Settled
	ring   []mq.Position
	next   int
	// open holds the parked rows of chunks that are not settled yet.
	open map[mq.Position]Settled
	rows int
}

// NewWatches makes Watches, whose Told must listen to notices. floor says up to
// where a table's chunks are written or parked, and is asked for callers that
// may have missed a notice.
func NewWatches(floor func(ctx context.Context, t mq.Topic) (mq.Position, error)) *Watches {
	return &Watches{
		floor: floor, share: fairshare.New(maxWatches, maxWatches), topics: make(map[mq.Topic]*watched),
	}
}

// Watch is one caller's view of a table's chunks, from its making until Close.
type Watch struct {
	all   *Watches
	topic mq.Topic
	// wake has room for one.
	wake chan struct{}
	// wanted are the chunks waited for, found those settled; guarded by all.mu,
	// as is lost: notices are missing, of rows that were parked perhaps.
	wanted map[mq.Position]struct{}
	found  map[mq.Position]Settled
	lost   bool
}

// Watch begins to take note of what becomes of the table's chunks. It must be
// called before they are published, and closed. The error is ErrTooManyWatches.
func (a *Watches) Watch(t mq.Topic) (*Watch, error) {
	if !a.share.Take(t.Tenant, 1) {
		return nil, ErrTooManyWatches
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	on := a.topics[t]
	if on == nil {
		on = &watched{
			watches: make(map[*Watch]struct{}), waiting: make(map[mq.Position][]*Watch),
			recent: make(map[mq.Position]Settled), open: make(map[mq.Position]Settled),
		}
		a.topics[t] = on
	}
	v := &Watch{all: a, topic: t, wake: make(chan struct{}, 1)}
	on.watches[v] = struct{}{}
	return v, nil
}

// Close ends the watch.
func (v *Watch) Close() {
	v.all.share.Give(v.topic.Tenant, 1)
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	on := v.all.topics[v.topic]
	delete(on.watches, v)
	if len(on.watches) == 0 {
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
	tick := time.NewTicker(floorEvery)
	defer tick.Stop()
	for {
		found, all, lost := v.look()
		if all {
			return found
		}
		asking := tick.C
		if !lost {
			asking = nil
		}
		select {
		case <-v.wake:
		case <-asking:
			v.ask(ctx)
		case <-ctx.Done():
			found, _, _ := v.look()
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

func (v *Watch) look() (found map[mq.Position]Settled, all, lost bool) {
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	found = maps.Clone(v.found)
	for at, s := range found {
		s.Unknown = s.Unknown || v.lost
		found[at] = s
	}
	return found, len(v.wanted) == 0, v.lost
}

// ask settles the chunks that the queue has done with. A failure is that of a
// queue that may answer next time.
func (v *Watch) ask(ctx context.Context) {
	floor, err := v.all.floor(ctx, v.topic)
	if err != nil {
		return
	}
	v.all.mu.Lock()
	defer v.all.mu.Unlock()
	for at := range v.wanted {
		if order, ok := at.Compare(floor); ok && order <= 0 {
			v.all.topics[v.topic].leave(at, v)
			v.settle(at, Settled{})
		}
	}
}

// Told takes note of what is told.
func (a *Watches) Told(all []notice.Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range all {
		switch n := n.(type) {
		case notice.Written:
			if on := a.topics[n.Topic]; on != nil {
				on.parked(n.Parked)
				on.settled(n.Settled)
			}
		case notice.Lost:
			for _, on := range a.topics {
				for v := range on.watches {
					v.lost = true
					v.rouse()
				}
			}
		}
	}
}

// parked notes rows that have become dead letters.
func (on *watched) parked(rows []notice.ParkedRow) {
	for _, row := range rows {
		s := on.open[row.Chunk]
		if row.Row < 0 || on.rows >= maxWatchedRows {
			s.Unknown = true
		} else {
			s.Parked = append(s.Parked, row)
			on.rows++
		}
		on.open[row.Chunk] = s
	}
}

// settled notes chunks whose rows are all written or parked.
func (on *watched) settled(chunks []mq.Position) {
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
	v.rouse()
}

func (v *Watch) rouse() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}
