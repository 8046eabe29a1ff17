package nats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/coord"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// group is the membership of the processes that deliver.
const group = "ingest"

// joinPause is between attempts to join the group.
const joinPause = time.Second

// consumption delivers the shards of this process.
type consumption struct {
	b    *Broker
	work mq.Work
	ctx  context.Context
	// cancel ends the membership and every shard.
	cancel context.CancelFunc
	failed chan error
	// managed ends when no shard is assigned or revoked any more.
	managed chan struct{}
	// settled ends when the shares were looked at first.
	settled chan struct{}
	first   sync.Once
	// keeping is who compares what the processes count.
	keeping sync.WaitGroup
	ending  sync.Once

	// revoking are shards that are being let go of, on goroutines that end with the
	// worker's call; again asks for another look at the shares when one is.
	revoking sync.WaitGroup
	again    chan struct{}

	mu      sync.Mutex
	shards  map[place]*shard
	leaving map[place]*shard
	members int
	// former are shards that were stopped with deliveries at the worker.
	former []*shard
}

// AckWait implements mq.Consumer: the shortest of the durables.
func (b *Broker) AckWait() time.Duration { return time.Duration(b.watch.ackWait.Load()) }

// Consume implements mq.Consumer. A consumption that was stopped hands back what
// it left.
func (b *Broker) Consume(ctx context.Context, w mq.Work) (mq.Consumption, error) {
	if err := b.life.Enter(); err != nil {
		return nil, err
	}
	defer b.life.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &consumption{b: b, work: w, failed: make(chan error, 1), managed: make(chan struct{}), settled: make(chan struct{}), again: make(chan struct{}, 1), shards: map[place]*shard{}, leaving: map[place]*shard{}}
	c.ctx, c.cancel = context.WithCancel(b.life.Context())
	b.mu.Lock()
	before := b.consumer
	if before != nil && before.ctx.Err() == nil {
		b.mu.Unlock()
		c.cancel()
		return nil, fmt.Errorf("consume: a consumption runs already")
	}
	b.consumer = c
	b.mu.Unlock()
	if before != nil {
		before.handBack()
	}
	go c.manage()
	c.begin(ctx)
	return c, nil
}

// beginFor bounds the wait for the first shards.
const beginFor = 2 * time.Second

// begin waits a moment for the first shards, so that what is published once Consume
// has returned is not taken for what a former owner may have had.
func (c *consumption) begin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beginFor)
	defer cancel()
	select {
	case <-c.settled:
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
	c.mu.Lock()
	var all []*shard
	for _, s := range c.shards {
		all = append(all, s)
	}
	c.mu.Unlock()
	for _, s := range all {
		select {
		case <-s.looked:
		case <-c.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// manage joins the group and keeps the shards that fall to this process.
func (c *consumption) manage() {
	defer close(c.managed)
	defer c.keeping.Wait()
	for c.ctx.Err() == nil {
		ctx, end, err := c.agreed()
		if err != nil {
			return // stopped
		}
		m, err := c.b.o.Group.Members(ctx, group)
		if err == nil {
			c.member(ctx, m)
		} else if c.ctx.Err() == nil {
			c.b.log.Warn("cannot join the processes that share the queue", "error", err)
		}
		end(nil)
		if c.ctx.Err() == nil {
			c.b.log.Warn("this process does not share the queue; it joins again")
			c.settle("", nil)
			pause(c.ctx, joinPause)
		}
	}
}

// member keeps its part of the shards until the membership ends, or ctx.
func (c *consumption) member(ctx context.Context, m coord.Membership) {
	members, ok := m.Members, true
	for ok {
		c.settle(m.Self, members)
		select {
		case next, more := <-m.Changes:
			if ok = more; ok {
				members = next
			}
		case <-c.again:
		case <-ctx.Done():
			return
		}
	}
}

// settle lets go of shards that are another's and takes those that fall to self,
// but for those that it is still letting go of.
func (c *consumption) settle(self string, members []string) {
	all := places(c.b.o.Partitions, c.b.o.Shards)
	owners := c.b.o.share(members, all)
	for _, p := range c.b.parts {
		// Not every process knows of the same ones, so each is shared by itself.
		for _, at := range p.left() {
			all = append(all, at)
			owners[at] = c.b.o.share(members, []place{at})[at]
		}
	}
	// One that was drained is let go of.
	c.mu.Lock()
	for at := range c.shards {
		if !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	c.mu.Unlock()
	mine := func(at place) bool { return self != "" && slices.Contains(members, self) && owners[at] == self }
	var take []place
	lost := 0
	c.mu.Lock()
	c.members = len(members)
	for _, at := range all {
		switch s := c.shards[at]; {
		case s != nil && !mine(at):
			lost++
			delete(c.shards, at)
			c.leaving[at] = s
			c.revoking.Go(func() { c.revoke(s) })
		case s == nil && mine(at) && c.leaving[at] == nil:
			take = append(take, at)
		}
	}
	c.mu.Unlock()
	for _, at := range take {
		c.assign(at)
	}
	c.first.Do(func() { close(c.settled) })
	if lost+len(take) > 0 {
		c.b.metrics.handovers.Add(float64(lost))
		c.b.log.Info("shards of the queue change hands", "lost", lost, "taken", len(take), "members", len(members))
	}
}

// assign takes a shard.
func (c *consumption) assign(at place) {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return
	}
	s := newShard(c, at, c.b.nextTerm())
	c.shards[at] = s
	c.mu.Unlock()
	s.tasks.Go(s.run)
}

func (b *Broker) nextTerm() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.terms++
	return b.terms
}

// revoke lets go of a shard: nothing more is fetched, the worker ends what it has,
// what it has not is handed back, and the pin with it.
func (c *consumption) revoke(s *shard) {
	s.cancel()
	if <-s.begun; s.assigned.Load() {
		c.work.Revoked(s.name())
	}
	s.tasks.Wait()
	s.lost.Store(true)
	s.handBack(true)
	s.unpin()
	c.mu.Lock()
	delete(c.leaving, s.at)
	c.mu.Unlock()
	poke(c.again)
}

// shardAt is a shard of this process, one that it is letting go of included; nil for
// others.
func (b *Broker) shardAt(at place) *shard {
	b.mu.Lock()
	c := b.consumer
	b.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := cmp.Or(c.shards[at], c.leaving[at]); s != nil {
		return s
	}
	for _, s := range c.former {
		if s.at == at {
			return s
		}
	}
	return nil
}

// share is the part of what is read ahead that one shard may have, in bytes.
func (c *consumption) share() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maxAhead / max(len(c.shards), 1)
}

// Shard implements mq.Consumption.
func (c *consumption) Shard(t mq.Topic) (mq.Shard, bool) {
	_, at := c.b.of(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.shards[at]
	if !ok || !s.assigned.Load() {
		return mq.Shard{}, false
	}
	return s.name(), true
}

// Failed implements mq.Consumption.
func (c *consumption) Failed() <-chan error { return c.failed }

// fail reports that delivery ended for good.
func (c *consumption) fail(err error) {
	c.ending.Do(func() { c.failed <- err })
}

// Stop implements mq.Consumption. What the worker has may still be acknowledged;
// what it has not goes to whoever has the shard next.
func (c *consumption) Stop(ctx context.Context) error {
	c.ending.Do(func() {})
	return c.end(ctx, nil)
}

// end stops every shard and waits for them until ctx ends. It reports failure
// unless that is nil or the consumption has ended before.
func (c *consumption) end(ctx context.Context, failure error) error {
	if failure != nil {
		c.fail(failure)
	}
	c.cancel()
	let := make(chan struct{})
	// It ends with what lets go, which ends with the worker.
	go func() { <-c.managed; c.revoking.Wait(); close(let) }()
	select {
	case <-let:
	case <-ctx.Done():
		return fmt.Errorf("stop delivery: %w", ctx.Err())
	}
	c.mu.Lock()
	var all []*shard
	for _, s := range c.shards {
		all = append(all, s)
	}
	c.mu.Unlock()
	for _, s := range all {
		if err := s.stop(ctx); err != nil {
			return fmt.Errorf("stop delivery: %w", err)
		}
	}
	c.mu.Lock()
	c.former = append(c.former, all...)
	c.shards = map[place]*shard{}
	c.mu.Unlock()
	letGo(all, false)
	return nil
}

// letGo hands back what shards have, and their pins.
func letGo(all []*shard, delivered bool) {
	var going sync.WaitGroup
	for _, s := range all {
		going.Go(func() {
			s.handBack(delivered)
			if !delivered {
				s.unpin()
			}
		})
	}
	going.Wait()
}

// handBack gives back what the worker had when it was stopped and has not ended.
func (c *consumption) handBack() {
	c.mu.Lock()
	former := c.former
	c.former = nil
	c.mu.Unlock()
	letGo(former, true)
}

// settleAgain has the shares looked at again.
func (b *Broker) settleAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.consumer != nil {
		poke(b.consumer.again)
	}
}

// pullAgain has every shard ask again, as requests are lost with a connection.
func (c *consumption) pullAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shards {
		s.pull.again(time.Now())
	}
}

// alone reports whether nobody else delivers, as far as this process knows.
func (c *consumption) alone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members == 1
}

// counts tells of shards, members and chunks that are held.
func (c *consumption) counts() (owned, members, held int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shards {
		held += s.held()
	}
	return len(c.shards), c.members, held
}
