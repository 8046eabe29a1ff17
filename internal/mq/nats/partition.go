package nats

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// partition is one part of the queue, as far as it is known.
type partition struct {
	b               *Broker
	n               int
	stream, history string

	// epoch names the stream that there is; 0 while none was seen.
	epoch atomic.Uint64
	// covered tells which shards have a durable: what is published to another
	// would be gone at once.
	mu      sync.Mutex
	covered []bool
	// uncovered counts what was taken away: a verification that looked before
	// says nothing of it.
	uncovered uint64
	// leftOver are shards beyond those configured that are to be drained.
	leftOver []int
	// behind is how long the history has been behind.
	behind atomic.Int64
}

func newPartition(b *Broker, n int) *partition {
	return &partition{b: b, n: n, stream: b.o.Names.Ingest(n), history: b.o.Names.History(n), covered: make([]bool, b.o.Shards)}
}

// epochOf is the identity of a stream in positions: when it was made, in
// nanoseconds, with its number in place of the last bits, so that no two
// partitions have the same.
func epochOf(created time.Time, n int) uint64 {
	const bits = 1<<10 - 1
	return uint64(created.UnixNano())&^bits | uint64(n)
}

func (p *partition) position(seq uint64) mq.Position { return mq.NewPosition(p.epoch.Load(), seq) }

// covers reports whether what is published to a shard is kept for it.
func (p *partition) covers(shard int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.covered[shard]
}

// leave notes which shards are left over, and tells whether that is news.
func (p *partition) leave(shards []int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := !slices.Equal(p.leftOver, shards)
	p.leftOver = shards
	return news
}

// left lists the places that are left over.
func (p *partition) left() []place {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []place
	for _, s := range p.leftOver {
		all = append(all, place{p.n, s})
	}
	return all
}

// losses is for cover.
func (p *partition) losses() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uncovered
}

// cover notes what a verification saw that began at so many losses.
func (p *partition) cover(covered []bool, losses uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.covered {
		p.covered[s] = covered[s] && (p.covered[s] || losses == p.uncovered)
	}
}

// uncover stops publishing to a shard at once.
func (p *partition) uncover(shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shard < len(p.covered) { // else it is left over
		p.covered[shard] = false
	}
	p.uncovered++
}

// state asks the leader of the partition's stream how far it is.
func (p *partition) state(ctx context.Context) (epoch uint64, s natsjs.StreamState, err error) {
	return p.ask(ctx, p.stream)
}

// kept asks the leader of the history what it has. Its identity is the
// partition's.
func (p *partition) kept(ctx context.Context) (natsjs.StreamState, error) {
	_, s, err := p.ask(ctx, p.history)
	return s, err
}

func (p *partition) ask(ctx context.Context, stream string) (epoch uint64, s natsjs.StreamState, err error) {
	info, err := jetstream.Info(ctx, p.b.js, stream)
	if err != nil {
		return 0, s, fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
	}
	return epochOf(info.Created, p.n), info.State, nil
}

// of returns the partition of a topic, and the topic's place.
func (b *Broker) of(t mq.Topic) (*partition, place) {
	at := placeOf(t, b.o.Partitions, b.o.Shards)
	return b.parts[at.partition], at
}

// subject is where a topic's chunks are published.
func (b *Broker) subject(t mq.Topic, at place) string {
	return jetstream.Subject(b.o.Names.ShardPrefix(at.partition, at.shard), t)
}
