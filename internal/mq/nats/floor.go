package nats

import (
	"context"
	"fmt"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

var _ mq.Floors = (*Broker)(nil)

// Floor implements mq.Floors: it asks the durable of the topic's shard. What was
// inherited is known of the shards of this process alone; whoever asks elsewhere
// hears of it from the shard's owner.
func (b *Broker) Floor(ctx context.Context, t mq.Topic) (floor, inherited mq.Position, err error) {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return floor, inherited, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, jetstream.APITimeout)
	defer cancel()
	p, at := b.of(t)
	// In this order: what is stored after the first look is not counted as done.
	epoch, stored, err := p.state(ctx)
	if err != nil {
		return floor, inherited, err
	}
	durable, err := b.js.Consumer(ctx, p.stream, b.o.Names.Shard(at.shard))
	if err != nil {
		return floor, inherited, fmt.Errorf("%w: ask for the floor of shard %s: %w", mq.ErrUnavailable, at, err)
	}
	is := durable.CachedInfo()
	acked := is.AckFloor.Stream
	if is.NumPending == 0 && is.NumAckPending == 0 {
		acked = max(acked, stored.LastSeq)
	}
	if acked > 0 {
		floor = mq.NewPosition(epoch, acked)
	}
	if seq := b.inherited(at); seq > 0 {
		inherited = mq.NewPosition(epoch, seq)
	}
	return floor, inherited, nil
}

// inherited is the newest sequence that a former owner of a shard of this process
// may have had; 0 for other shards.
func (b *Broker) inherited(at place) uint64 {
	b.mu.Lock()
	c := b.consumer
	b.mu.Unlock()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.shards[at]; s != nil {
		return s.inherited.Load()
	}
	return 0
}

// inherit finds out what was stored when the shard came.
func (s *shard) inherit() {
	defer close(s.looked)
	for s.ctx.Err() == nil {
		if _, stored, err := s.part.state(s.ctx); err == nil {
			s.inherited.Store(stored.LastSeq)
			return
		}
		pause(s.ctx, pullPause)
	}
}
