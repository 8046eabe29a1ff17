package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

// shard is a shard while it is this process's: what is read ahead of the worker,
// what the worker has, and the goroutines that bring the one to the other.
type shard struct {
	c    *consumption
	at   place
	part *partition
	term uint64
	// ctx ends when nothing more is to be fetched or delivered.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	// lost is set once the shard is another process's.
	lost atomic.Bool
	// wake tells the deliverer of a chunk, more the puller of room.
	wake, more chan struct{}
	// looked ends when inherited is known, or the shard is over.
	looked chan struct{}
	pull   *pull
	notes  *notes
	// begun ends when the worker was told of the shard, if that came to be: then
	// assigned is set.
	begun    chan struct{}
	assigned atomic.Bool
	// inherited is the newest sequence that was stored when the shard came, all
	// of them until it is known.
	inherited atomic.Uint64

	mu sync.Mutex
	// ahead is what came and is not delivered, in order; aheadBytes its size.
	ahead      []*delivery
	aheadBytes int
	// hand is the newest delivery of each sequence that the worker has not ended;
	// handing is the one whose Deliver has not returned.
	hand    map[uint64]*delivery
	handing *delivery
}

func newShard(c *consumption, at place, term uint64) *shard {
	s := &shard{
		c: c, at: at, part: c.b.parts[at.partition], term: term,
		wake: make(chan struct{}, 1), more: make(chan struct{}, 1), looked: make(chan struct{}), begun: make(chan struct{}), hand: map[uint64]*delivery{},
		notes: newNotes(c.b, at, term),
	}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	s.pull = &pull{s: s}
	s.inherited.Store(math.MaxUint64)
	return s
}

func (s *shard) name() mq.Shard { return mq.Shard{Name: s.at.String(), Term: s.term} }

func (s *shard) durable() string { return s.c.b.o.Names.Shard(s.at.shard) }

// holds is mq.ErrRevoked once the shard is lost.
func (s *shard) holds() error {
	if s.lost.Load() {
		return fmt.Errorf("%w: %s", mq.ErrRevoked, s.at)
	}
	return nil
}

// run tells the worker of the shard, once it is known what was being written, and
// starts fetching and delivering.
func (s *shard) run() {
	defer close(s.begun)
	s.notes.take(s.ctx)
	if s.ctx.Err() != nil {
		close(s.looked)
		return
	}
	s.c.work.Assigned(s.name())
	s.assigned.Store(true)
	s.tasks.Go(func() { s.notes.tidy(s.ctx) })
	s.tasks.Go(s.deliver)
	s.tasks.Go(s.pull.run)
	s.tasks.Go(s.extend)
	s.tasks.Go(s.inherit)
}

// came takes a message of the durable.
func (s *shard) came(m *client.Msg) {
	seq, attempt, ok := parseReply(m)
	if !ok {
		s.c.b.log.Error("a delivery has no position", "stream", s.part.stream, "durable", s.durable(), "reply", m.Reply)
		return
	}
	d := &delivery{shard: s, seq: seq, pos: s.part.position(seq), reply: m.Reply, size: len(m.Data), chunk: decode(m.Subject, m.Header, m.Data)}
	if attempt > 1 {
		s.c.b.metrics.Redelivered.Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, before := range s.ahead {
		if before.seq == seq {
			before.reply = d.reply // it was held for longer than the ack wait
			return
		}
	}
	s.ahead = append(s.ahead, d)
	s.aheadBytes += d.size
	poke(s.wake)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is told already
	}
}

// next takes the first chunk that was read ahead.
func (s *shard) next() *delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ahead) == 0 || s.ctx.Err() != nil {
		return nil
	}
	d := s.ahead[0]
	s.ahead[0] = nil
	s.ahead = s.ahead[1:]
	s.aheadBytes -= d.size
	s.hand[d.seq], s.handing = d, d
	poke(s.more)
	return d
}

// deliver hands chunks to the worker, one after the other.
func (s *shard) deliver() {
	for s.ctx.Err() == nil {
		d := s.next()
		if d == nil {
			select {
			case <-s.wake:
			case <-s.ctx.Done():
			}
			continue
		}
		s.c.work.Deliver(d)
		s.mu.Lock()
		s.handing = nil
		s.mu.Unlock()
	}
}

// room is how many chunks and bytes may be asked for; none while enough is there.
func (s *shard) room() (chunks, bytes int) {
	share := s.c.share()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ahead) > maxBatch/2 || (len(s.ahead) > 0 && s.aheadBytes > share/2) {
		return 0, 0
	}
	// One that is as large as the server takes must fit.
	return maxBatch - len(s.ahead), max(share-s.aheadBytes, int(s.c.b.api.MaxPayload())+maxSubject)
}

// maxSubject is what a subject and a reply take beside the payload.
const maxSubject = 64 << 10

// extend keeps what is read ahead, and what the worker is taking, from being
// delivered to another. The worker extends what it has.
func (s *shard) extend() {
	every := time.NewTicker(max(s.c.b.AckWait()/3, time.Millisecond))
	defer every.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-every.C:
		}
		s.mu.Lock()
		held := slices.Clone(s.ahead)
		if s.handing != nil && !s.handing.ended {
			held = append(held, s.handing)
		}
		s.mu.Unlock()
		for _, d := range held {
			if d.tell([]byte(progressBody)) != nil {
				break // the connection is away: it is tried again
			}
		}
	}
}

// finish ends a delivery that is handed back; false when it had ended.
func (s *shard) finish(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.ended {
		return false
	}
	s.endLocked(d)
	return true
}

func (s *shard) endLocked(d *delivery) {
	d.ended = true
	if s.hand[d.seq] == d {
		delete(s.hand, d.seq)
	}
}

func (s *shard) over(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.ended
}

func (s *shard) acknowledged(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.stored
}

// acked ends every delivery of the sequence.
func (s *shard) acked(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stored = true
	s.endLocked(d)
	if newer := s.hand[d.seq]; newer != nil {
		newer.stored = true
		s.endLocked(newer)
	}
}

// held counts what came and has not ended.
func (s *shard) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ahead) + len(s.hand)
}

// stop ends fetching and delivering, and waits for both until ctx ends.
func (s *shard) stop(ctx context.Context) error {
	s.cancel()
	done := make(chan struct{})
	// It ends with the worker's call, which ends with the worker.
	go func() { s.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shard %s: %w", s.at, ctx.Err())
	}
}

// handBack gives back what is read ahead, and with all what the worker has, so
// that it is delivered again without delay.
func (s *shard) handBack(all bool) {
	s.mu.Lock()
	back := s.ahead
	s.ahead, s.aheadBytes = nil, 0
	if all {
		for _, d := range s.hand {
			back = append(back, d)
			s.endLocked(d)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(back, func(a, b *delivery) int { return cmp.Compare(a.seq, b.seq) })
	if _, err := s.c.b.answers(back, []byte(nakBody), ackTimeout); err != nil {
		s.c.b.log.Warn("chunks are handed back by their ack wait", "shard", s.at.String(), "chunks", len(back), "error", err)
	}
}

// unpin lets another process have the shard at once.
func (s *shard) unpin() {
	ask, err := json.Marshal(map[string]string{"group": topology.Group})
	if err == nil {
		_, err = s.c.b.api.Request("$JS.API.CONSUMER.UNPIN."+s.part.stream+"."+s.durable(), ask, ackTimeout)
	}
	if err != nil {
		s.c.b.log.Warn("a shard is let go of when its pin lapses", "shard", s.at.String(), "error", err)
	}
}

// parseReply reads a delivery's sequence and how often it was delivered.
func parseReply(m *client.Msg) (seq, attempt uint64, ok bool) {
	meta, err := m.Metadata()
	if err != nil || meta.Sequence.Stream == 0 {
		return 0, 0, false
	}
	return meta.Sequence.Stream, meta.NumDelivered, true
}
