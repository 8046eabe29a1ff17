package ingest

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// laneKey tells lanes apart. Column sets belong to one compiled table, so a
// refreshed schema has lanes of its own.
type laneKey struct {
	topic mq.Topic
	set   *record.ColumnSet
}

// lane is where small requests for one table and column set meet. At most one
// shared chunk is being published; rows that come meanwhile form the next one,
// which leaves when that publish returns. A chunk that is full leaves at once.
type lane struct {
	refs int // guarded by the gate's mutex

	mu   sync.Mutex
	busy bool
	open *shared
	last int // bytes of the last shared chunk: the next one's first capacity
	most int // bytes of a shared chunk
}

// shared is a chunk that several requests fill. The request that opened it
// publishes it on its own goroutine, once lead says so; the others wait for
// done.
type shared struct {
	body     []byte
	rows     int
	received time.Time
	trace    string
	turn     bool // the lane is busy with this chunk
	lead     chan struct{}
	done     chan struct{}
	err      *Error
	position mq.Position // once it is durable
	// id is the message's, "" for one that is never sent again.
	id string
	// ids is how much of body are ids of the rows.
	ids int
}

// join makes the rows of p durable together with those of other requests. It
// cannot be called off: from here on the rows may be on their way.
func (g *Gate) join(ctx context.Context, key laneKey, p *piece, received time.Time, trace string) *Error {
	l := g.acquire(key)
	defer g.drop(key, l)
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		b := &shared{body: bytes.Clone(p.body), rows: p.rows, received: received, trace: trace}
		err := g.store(ctx, key, b)
		l.next()
		p.chunk = b.position
		return err
	}
	b, leads := l.enter(p, received, trace)
	l.mu.Unlock()
	if !leads {
		<-b.done
		p.chunk = b.position
		return b.err
	}
	<-b.lead
	b.err = g.store(ctx, key, b)
	close(b.done)
	p.chunk = b.position
	if b.turn {
		l.next()
	}
	return b.err
}

// enter adds p to the chunk being formed. leads is true for the caller that
// has to publish it.
func (l *lane) enter(p *piece, received time.Time, trace string) (b *shared, leads bool) {
	if l.open != nil && !l.open.fits(p, l.most) {
		l.leave(false)
	}
	if l.open == nil {
		leads = true
		l.open = &shared{
			body:     make([]byte, 0, max(l.last, len(p.body))),
			received: received, trace: trace,
			lead: make(chan struct{}, 1), done: make(chan struct{}),
		}
	}
	b = l.open
	b.body = append(b.body, p.body...)
	p.at = b.rows
	b.rows += p.rows
	if b.rows >= chunk.MaxRows {
		l.leave(false)
	}
	return b, leads
}

func (b *shared) fits(p *piece, most int) bool {
	return b.rows+p.rows <= chunk.MaxRows && len(b.body)+len(p.body) <= most
}

// leave sends the chunk being formed on its way.
func (l *lane) leave(turn bool) {
	b := l.open
	l.open, l.last = nil, len(b.body)
	b.turn = turn
	b.lead <- struct{}{}
}

// next ends a publish: what has gathered meanwhile goes now.
func (l *lane) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		l.leave(true)
		return
	}
	l.busy = false
}

func (g *Gate) acquire(key laneKey) *lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[key]
	if l == nil {
		l = &lane{most: g.chunkBytes}
		g.lanes[key] = l
	}
	l.refs++
	return l
}

// drop forgets a lane with its last user, so that the map holds as many lanes
// as there are requests at most.
func (g *Gate) drop(key laneKey, l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(g.lanes, key)
	}
}

// store publishes one chunk. The caller's going away does not stop it: others'
// rows may be in it, and its outcome must be known.
func (g *Gate) store(ctx context.Context, key laneKey, b *shared) *Error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.PublishTimeout)
	defer cancel()
	position, err := g.o.Broker.Publish(ctx, mq.Chunk{
		Topic: key.topic, ID: b.id,
		Header: mq.Header{
			Version: mq.Version, Format: key.set.Format(), Columns: key.set.Header(),
			Rows: b.rows, Received: b.received, TraceParent: b.trace, IDs: b.ids,
		},
		Body: b.body,
	})
	g.metrics.chunk(b.rows, err)
	if err != nil {
		return PublishError(err)
	}
	b.position = position
	return nil
}
