package nats

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// feeds is who watches chunks arrive. While there is somebody each partition's
// history has one reader here.
type feeds struct {
	b *Broker
	// list is replaced whole, so that showing a chunk reads one pointer.
	list atomic.Pointer[[]*feed]

	mu      sync.Mutex
	readers []*reader // by partition; nil while nobody watches
}

// feed is one live subscription. Its lock is held for reading during handler
// calls, so Close can wait for them.
type feed struct {
	owner  *feeds
	viewer mq.Viewer
	// from is the first sequence of each partition that it is shown.
	from   []uint64
	mu     sync.RWMutex
	closed bool
}

// feedPause is between attempts to learn where a feed begins.
const feedPause = 250 * time.Millisecond

// Feed implements mq.Feeder. It begins behind what every partition holds now, and
// waits for partitions that cannot say. Calls for topics of different partitions
// may overlap; they must not close the feed.
func (b *Broker) Feed(ctx context.Context, v mq.Viewer) (mq.Feed, error) {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	f := &feed{owner: b.feeds, viewer: v, from: make([]uint64, len(b.parts))}
	for n, p := range b.parts {
		for {
			_, state, err := p.state(ctx)
			if err == nil {
				f.from[n] = state.LastSeq + 1
				break
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			b.log.Warn("the live feed waits for a partition", "error", err)
			pause(ctx, feedPause)
		}
	}
	b.feeds.add(f)
	return f, nil
}

func (fs *feeds) current() []*feed {
	if l := fs.list.Load(); l != nil {
		return *l
	}
	return nil
}

func (fs *feeds) add(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	next := append(slices.Clone(fs.current()), f)
	fs.list.Store(&next)
	if fs.readers == nil {
		for n, p := range fs.b.parts {
			fs.readers = append(fs.readers, startReader(p, f.from[n]))
		}
	}
}

// Close implements mq.Feed.
func (f *feed) Close() {
	f.owner.remove(f)
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
}

func (fs *feeds) remove(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(fs.current()), func(other *feed) bool { return other == f })
	fs.list.Store(&next)
	if len(next) == 0 {
		fs.stopLocked()
	}
}

func (fs *feeds) stopLocked() {
	for _, r := range fs.readers {
		r.stop()
	}
	fs.readers = nil
}

func (fs *feeds) closeAll() {
	for _, f := range fs.current() {
		f.Close()
	}
}

// restart reads a partition anew from a sequence on.
func (fs *feeds) restart(partition int, from uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.readers != nil {
		fs.readers[partition].stop()
		fs.readers[partition] = startReader(fs.b.parts[partition], from)
	}
}

// reader shows a partition's history to the feeds, in order.
type reader struct {
	p      *partition
	cancel context.CancelFunc
	done   chan struct{}
	// next is the sequence to be shown next. Only the library's goroutine writes
	// it while it runs.
	next atomic.Uint64
}

// How a reader asks: the library makes its consumer anew when it hears nothing of
// it for twice the beat.
const (
	readFor    = 20 * time.Second
	readBeat   = time.Second
	readExpiry = 30 * time.Second // of the consumer at the server
	readBytes  = 8 << 20
	readBatch  = 256
)

func startReader(p *partition, from uint64) *reader {
	ctx, cancel := context.WithCancel(p.b.life.Context())
	r := &reader{p: p, cancel: cancel, done: make(chan struct{})}
	r.next.Store(from)
	go r.run(ctx)
	return r
}

func (r *reader) stop() {
	r.cancel()
	<-r.done
}

func (r *reader) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		consuming, err := r.consume(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.p.b.log.Warn("the live feed waits for a history", "stream", r.p.history, "error", err)
			}
			pause(ctx, feedPause)
			continue
		}
		select {
		case <-ctx.Done():
			consuming.Stop()
			<-consuming.Closed()
		case <-consuming.Closed():
		}
	}
}

func (r *reader) consume(ctx context.Context) (natsjs.ConsumeContext, error) {
	consumer, err := r.p.b.js.OrderedConsumer(ctx, r.p.history, natsjs.OrderedConsumerConfig{
		DeliverPolicy: natsjs.DeliverByStartSequencePolicy, OptStartSeq: r.next.Load(), InactiveThreshold: readExpiry,
	})
	if err != nil {
		return nil, err
	}
	most := max(readBytes, int(r.p.b.api.MaxPayload())+maxSubject)
	return consumer.Consume(r.show, natsjs.PullExpiry(readFor), natsjs.PullHeartbeat(readBeat),
		natsjs.PullMaxMessagesWithBytesLimit(readBatch, most),
		natsjs.ConsumeErrHandler(func(_ natsjs.ConsumeContext, err error) {
			r.p.b.log.Debug("reading a history", "stream", r.p.history, "error", err)
		}))
}

// show passes a message on. What the history skips is gone.
func (r *reader) show(m natsjs.Msg) {
	meta, err := m.Metadata()
	missed := r.next.Load()
	if err != nil || meta.Sequence.Stream < missed {
		return
	}
	seq := meta.Sequence.Stream
	r.next.Store(seq + 1)
	feeds := r.p.b.feeds.current()
	if missed < seq {
		r.p.b.log.Warn("the live feed skips chunks that the history lacks", "stream", r.p.history, "from", missed, "to", seq-1)
		for _, f := range feeds {
			f.miss(r.p, missed, seq-1)
		}
	}
	if len(feeds) == 0 {
		return
	}
	c, pos := decode(m.Subject(), m.Headers(), m.Data()), r.p.position(seq)
	for _, f := range feeds {
		f.show(r.p, seq, c, pos)
	}
}

func (f *feed) show(p *partition, seq uint64, c mq.Chunk, pos mq.Position) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !f.closed && seq >= f.from[p.n] {
		f.viewer.Chunk(c, pos)
	}
}

func (f *feed) miss(p *partition, from, to uint64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	from = max(from, f.from[p.n])
	if !f.closed && from <= to {
		f.viewer.Hole(mq.Hole{From: p.position(from - 1), Until: p.position(to), Gone: true})
	}
}

// adopt takes over the identity of a partition's stream. Another than before has
// nothing of it.
func (b *Broker) adopt(p *partition, epoch uint64) {
	before := p.epoch.Swap(epoch)
	if before != 0 && before != epoch {
		b.log.Error("a partition was made anew: what it held is gone", "stream", p.stream)
		b.feeds.restart(p.n, 1)
	}
}
