package mqtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Memory is a queue as one in a cluster looks from a process: its topics lie in
// partitions, which are its shards and can be taken away; a feed may miss
// something, an acknowledgement may be forgotten by a failover, chunks are
// smaller than elsewhere. It has none of the capabilities of a queue that the
// process shapes, and keeps its data for the next Open.
type Memory struct {
	// AckWait is the ack wait of its brokers.
	AckWait time.Duration

	mu      sync.Mutex
	parts   []*partition
	letters map[tenant.ID][]mq.DeadLetter
	letter  int
}

const (
	partitions     = 3
	memoryChunkMax = 256 << 10
	letterPrefix   = "m-"
)

// partition is a queue of some topics, guarded by the Memory's mu.
type partition struct {
	epoch uint64
	all   []*message
	byID  map[string]mq.Position
}

// message is a stored chunk.
type message struct {
	chunk mq.Chunk
	at    time.Time
	acked bool
	// due is when it is delivered, or again; n counts deliveries.
	due time.Time
	n   int
}

// NewMemory makes an empty queue.
func NewMemory(ackWait time.Duration) *Memory {
	m := &Memory{AckWait: ackWait, letters: map[tenant.ID][]mq.DeadLetter{}}
	for n := range partitions {
		m.parts = append(m.parts, &partition{epoch: uint64(n + 1), byID: map[string]mq.Position{}})
	}
	return m
}

// Open returns a broker over the data.
func (m *Memory) Open() *MemoryBroker {
	return &MemoryBroker{m: m, feeds: map[*memoryFeed]bool{}}
}

func (m *Memory) of(t mq.Topic) *partition {
	h := fnv.New32a()
	_, _ = h.Write([]byte(string(t.Tenant) + "/" + t.Table))
	return m.parts[h.Sum32()%partitions]
}

func (p *partition) position(n int) mq.Position { return mq.NewPosition(p.epoch, uint64(n+1)) }

// MemoryBroker is a mq.Broker.
type MemoryBroker struct {
	m        *Memory
	closed   atomic.Bool
	consumer *memoryConsumption
	feeds    map[*memoryFeed]bool
	terms    uint64
}

func (b *MemoryBroker) err(ctx context.Context) error {
	if b.closed.Load() {
		return mq.ErrClosed
	}
	return ctx.Err()
}

// MaxChunkBytes implements mq.Publisher.
func (b *MemoryBroker) MaxChunkBytes() int { return memoryChunkMax }

// DuplicateWindow implements mq.Publisher.
func (b *MemoryBroker) DuplicateWindow() time.Duration { return 2 * time.Minute }

// Publish implements mq.Publisher. A context that is about to end loses the
// answer.
func (b *MemoryBroker) Publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	switch err := b.err(ctx); {
	case errors.Is(err, mq.ErrClosed):
		return mq.Position{}, err
	case err != nil:
		return mq.Position{}, fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
	case len(c.Body)+len(c.Columns)+len(c.Table) > memoryChunkMax:
		return mq.Position{}, mq.ErrTooLarge
	}
	at := b.store(c, true)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Millisecond {
		return mq.Position{}, mq.ErrOutcomeUnknown
	}
	return at, nil
}

func (b *MemoryBroker) store(c mq.Chunk, show bool) mq.Position {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	p, id := b.m.of(c.Topic), fmt.Sprint(c.Tenant, "/", c.Table, "/", c.ID)
	if at, known := p.byID[id]; known && c.ID != "" {
		return at
	}
	p.all = append(p.all, &message{chunk: c, at: time.Now()})
	at := p.position(len(p.all) - 1)
	p.byID[id] = at
	for f := range b.feeds {
		if show {
			f.viewer.Chunk(c, at)
		} else {
			f.viewer.Hole(mq.Hole{From: at.Prev(), Until: at})
		}
	}
	return at
}

// Missed stores a chunk that feeds do not see.
func (b *MemoryBroker) Missed(c mq.Chunk) mq.Position { return b.store(c, false) }

type memoryFeed struct {
	b      *MemoryBroker
	viewer mq.Viewer
}

// Feed implements mq.Feeder.
func (b *MemoryBroker) Feed(ctx context.Context, w mq.Viewer) (mq.Feed, error) {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	f := &memoryFeed{b, w}
	b.feeds[f] = true
	return f, b.err(ctx)
}

func (f *memoryFeed) Close() {
	f.b.m.mu.Lock()
	defer f.b.m.mu.Unlock()
	delete(f.b.feeds, f)
}

// AckWait implements mq.Consumer.
func (b *MemoryBroker) AckWait() time.Duration { return b.m.AckWait }

type memoryConsumption struct {
	b      *MemoryBroker
	work   mq.Work
	failed chan error
	end    sync.Once
	cancel context.CancelFunc
	all    sync.WaitGroup
	shards []*memoryShard
}

// memoryShard is a partition while it is this process's.
type memoryShard struct {
	name  string
	p     *partition
	term  atomic.Uint64
	lost  atomic.Bool
	pause chan chan struct{} // revocations: closed when the shard may go on
}

// Consume implements mq.Consumer.
func (b *MemoryBroker) Consume(ctx context.Context, w mq.Work) (mq.Consumption, error) {
	if err := b.err(ctx); err != nil {
		return nil, err
	}
	c := &memoryConsumption{b: b, work: w, failed: make(chan error, 1)}
	ctx, c.cancel = context.WithCancel(ctx)
	for n, p := range b.m.parts {
		s := &memoryShard{name: "p" + strconv.Itoa(n), p: p, pause: make(chan chan struct{})}
		s.term.Store(b.assign(p))
		c.shards = append(c.shards, s)
		c.all.Go(func() { s.run(ctx, c) })
	}
	b.m.mu.Lock()
	b.consumer = c
	b.m.mu.Unlock()
	return c, nil
}

// assign begins a term: what is not acknowledged is to be delivered.
func (b *MemoryBroker) assign(p *partition) uint64 {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	b.terms++
	for _, msg := range p.all {
		msg.due = time.Time{}
	}
	return b.terms
}

func (s *memoryShard) run(ctx context.Context, c *memoryConsumption) {
	c.work.Assigned(s.shard())
	for ctx.Err() == nil {
		select {
		case goOn := <-s.pause:
			<-goOn
			c.work.Assigned(s.shard())
			continue
		default:
		}
		if d := s.next(c); d != nil {
			c.work.Deliver(d)
			continue
		}
		select {
		case goOn := <-s.pause:
			<-goOn
			c.work.Assigned(s.shard())
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (s *memoryShard) shard() mq.Shard { return mq.Shard{Name: s.name, Term: s.term.Load()} }

func (s *memoryShard) next(c *memoryConsumption) mq.Delivery {
	c.b.m.mu.Lock()
	defer c.b.m.mu.Unlock()
	now := time.Now()
	for n, msg := range s.p.all {
		if !msg.acked && !msg.due.After(now) && !s.lost.Load() {
			msg.n++
			msg.due = now.Add(c.b.m.AckWait)
			return &memoryDelivery{c: c, s: s, shard: s.shard(), msg: msg, at: s.p.position(n), n: msg.n}
		}
	}
	return nil
}

// Revoke takes a shard away from the broker's consumption and gives it back
// when the worker has let go of it.
func (b *MemoryBroker) Revoke(shard mq.Shard) {
	b.m.mu.Lock()
	c := b.consumer
	b.m.mu.Unlock()
	i := slices.IndexFunc(c.shards, func(s *memoryShard) bool { return s.name == shard.Name })
	s, goOn, told := c.shards[i], make(chan struct{}), make(chan struct{})
	s.lost.Store(true)
	go func() { c.work.Revoked(shard); close(told) }()
	s.pause <- goOn // once Deliver has returned
	<-told
	s.term.Store(b.assign(s.p))
	s.lost.Store(false)
	close(goOn)
}

// Shard returns the shard that holds a topic.
func (b *MemoryBroker) Shard(t mq.Topic) mq.Shard {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	s, _ := b.consumer.Shard(t)
	return s
}

// Failover forgets the newest acknowledgements of each partition.
func (b *MemoryBroker) Failover() {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	for _, p := range b.m.parts {
		for n, forget := len(p.all)-1, 3; n >= 0 && forget > 0; n-- {
			if msg := p.all[n]; msg.acked {
				msg.acked, msg.due = false, time.Time{}
				forget--
			}
		}
	}
}

// Ack implements mq.Consumption.
func (c *memoryConsumption) Ack(ds ...mq.Delivery) error {
	if c.b.closed.Load() {
		return mq.ErrClosed
	}
	c.b.m.mu.Lock()
	defer c.b.m.mu.Unlock()
	for _, d := range ds {
		own, ok := d.(*memoryDelivery)
		switch {
		case !ok:
			return fmt.Errorf("acknowledge a delivery of another broker: %T", d)
		case own.shard != own.s.shard():
			return mq.ErrRevoked
		}
		own.msg.acked = true
	}
	return nil
}

// Shard implements mq.Consumption.
func (c *memoryConsumption) Shard(t mq.Topic) (mq.Shard, bool) {
	return c.shards[slices.Index(c.b.m.parts, c.b.m.of(t))].shard(), true
}

// Stop implements mq.Consumption.
func (c *memoryConsumption) Stop(ctx context.Context) error {
	c.end.Do(func() {})
	c.cancel()
	done := make(chan struct{})
	go func() { c.all.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Failed implements mq.Consumption.
func (c *memoryConsumption) Failed() <-chan error { return c.failed }

type memoryDelivery struct {
	c     *memoryConsumption
	s     *memoryShard
	shard mq.Shard
	msg   *message
	at    mq.Position
	n     int
}

func (d *memoryDelivery) Chunk() mq.Chunk       { return d.msg.chunk }
func (d *memoryDelivery) Position() mq.Position { return d.at }
func (d *memoryDelivery) Shard() mq.Shard       { return d.shard }

func (d *memoryDelivery) Nak(delay time.Duration) error {
	_ = d.putOff(delay)
	return nil
}

func (d *memoryDelivery) Extend() error { return d.putOff(d.c.b.m.AckWait) }

func (d *memoryDelivery) putOff(until time.Duration) error {
	d.c.b.m.mu.Lock()
	defer d.c.b.m.mu.Unlock()
	if d.msg.n != d.n || d.shard != d.s.shard() {
		return errors.New("the delivery is over")
	}
	d.msg.due = time.Now().Add(until)
	return nil
}

// Replay implements mq.History.
func (b *MemoryBroker) Replay(ctx context.Context, t mq.Topic, from, until mq.Position, handle func(mq.Chunk, mq.Position) error) error {
	if err := b.err(ctx); err != nil {
		return err
	}
	b.m.mu.Lock()
	p := b.m.of(t)
	all := slices.Clone(p.all)
	b.m.mu.Unlock()
	for _, end := range []mq.Position{from, until} {
		if _, ours := end.Compare(p.position(0)); !ours {
			gap := &mq.ReplayGap{Reason: mq.GapReset}
			if len(all) > 0 {
				gap.First = p.position(0)
			}
			return gap
		}
	}
	for n, msg := range all {
		at := p.position(n)
		if msg.chunk.Topic != t || !from.Before(at) || until.Before(at) {
			continue
		}
		if err := b.err(ctx); err != nil {
			return err
		}
		if err := handle(msg.chunk, at); err != nil {
			return err
		}
	}
	return nil
}

// Tail implements mq.History.
func (b *MemoryBroker) Tail(ctx context.Context, t mq.Topic) (mq.Position, error) {
	return b.before(ctx, t, func(*message) bool { return false })
}

// PositionAt implements mq.History.
func (b *MemoryBroker) PositionAt(ctx context.Context, t mq.Topic, at time.Time) (mq.Position, error) {
	return b.before(ctx, t, func(m *message) bool { return !m.at.Before(at) })
}

// FirstKept implements mq.History.
func (b *MemoryBroker) FirstKept(ctx context.Context, _ mq.Topic) (mq.Position, error) {
	return mq.Position{}, b.err(ctx)
}

// before is the position before the first message that is.
func (b *MemoryBroker) before(ctx context.Context, t mq.Topic, is func(*message) bool) (mq.Position, error) {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	p := b.m.of(t)
	n := slices.IndexFunc(p.all, is)
	switch {
	case len(p.all) == 0:
		return mq.Position{}, b.err(ctx)
	case n < 0:
		n = len(p.all)
	}
	return p.position(n).Prev(), b.err(ctx)
}

// Park implements mq.Letters.
func (b *MemoryBroker) Park(ctx context.Context, letters ...mq.DeadLetter) error {
	if err := b.err(ctx); err != nil {
		return err
	}
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	for _, l := range letters {
		b.m.letter++
		l.KeepOlder = false
		l.ID = letterPrefix + strconv.Itoa(b.m.letter)
		b.m.letters[l.Tenant] = append(b.m.letters[l.Tenant], l)
	}
	return nil
}

// DeadLetters implements mq.Letters.
func (b *MemoryBroker) DeadLetters(t tenant.ID) (mq.DeadLetterStore, error) {
	return &memoryLetters{b, t}, b.err(context.Background())
}

type memoryLetters struct {
	b *MemoryBroker
	t tenant.ID
}

// where returns those of the tenant's letters that are.
func (s *memoryLetters) where(ctx context.Context, is func(*mq.DeadLetter) bool) ([]mq.DeadLetter, error) {
	s.b.m.mu.Lock()
	defer s.b.m.mu.Unlock()
	var out []mq.DeadLetter
	for _, l := range s.b.m.letters[s.t] {
		if is(&l) {
			out = append(out, l)
		}
	}
	return out, s.b.err(ctx)
}

func (s *memoryLetters) Counts(ctx context.Context) (map[string]uint64, error) {
	counts := map[string]uint64{}
	_, err := s.where(ctx, func(l *mq.DeadLetter) bool { counts[l.Table]++; return false })
	return counts, err
}

func number(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, letterPrefix))
	if err != nil {
		return -1
	}
	return n
}

const memoryPageBytes = 8 << 20

func (s *memoryLetters) List(ctx context.Context, table string, limit int, cursor string) (mq.DeadLetterPage, error) {
	switch {
	case limit < 1 || limit > 1000:
		return mq.DeadLetterPage{}, fmt.Errorf("limit %d", limit)
	case cursor != "" && number(cursor) < 0:
		return mq.DeadLetterPage{}, mq.ErrBadCursor
	}
	all, err := s.where(ctx, func(l *mq.DeadLetter) bool { return l.Table == table && number(l.ID) > number(cursor) })
	var page mq.DeadLetterPage
	for bytes := 0; len(all) > 0 && len(page.Letters) < limit && bytes < memoryPageBytes; all = all[1:] {
		bytes += len(all[0].Row)
		page.Letters = append(page.Letters, all[0])
	}
	if len(all) > 0 {
		page.Next = page.Letters[len(page.Letters)-1].ID
	}
	return page, err
}

func (s *memoryLetters) Get(ctx context.Context, id string) (mq.DeadLetter, bool, error) {
	found, err := s.where(ctx, func(l *mq.DeadLetter) bool { return l.ID == id })
	if len(found) == 0 {
		return mq.DeadLetter{}, false, err
	}
	return found[0], true, err
}

func (s *memoryLetters) Discard(ctx context.Context, ids ...string) (int, error) {
	return s.discard(ctx, func(l *mq.DeadLetter) bool { return slices.Contains(ids, l.ID) })
}

func (s *memoryLetters) DiscardThrough(ctx context.Context, table, id string) (int, error) {
	return s.discard(ctx, func(l *mq.DeadLetter) bool { return l.Table == table && number(l.ID) <= number(id) })
}

func (s *memoryLetters) discard(ctx context.Context, is func(*mq.DeadLetter) bool) (int, error) {
	if err := s.b.err(ctx); err != nil {
		return 0, err
	}
	s.b.m.mu.Lock()
	defer s.b.m.mu.Unlock()
	before := s.b.m.letters[s.t]
	after := slices.DeleteFunc(slices.Clone(before), func(l mq.DeadLetter) bool { return is(&l) })
	s.b.m.letters[s.t] = after
	return len(before) - len(after), nil
}

// Full implements mq.Broker.
func (b *MemoryBroker) Full() error { return nil }

// Close implements mq.Broker.
func (b *MemoryBroker) Close(ctx context.Context) error {
	if b.closed.Swap(true) {
		return mq.ErrClosed
	}
	b.m.mu.Lock()
	c := b.consumer
	clear(b.feeds)
	b.m.mu.Unlock()
	if c == nil {
		return nil
	}
	c.end.Do(func() { c.failed <- mq.ErrClosed })
	return c.Stop(ctx)
}
