package stream

import (
	"errors"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// followEvery is how often a topic's readers together look how far the queue is.
const followEvery = time.Second

// silence is a range of the queue that holds no chunk of the topic: who has read up
// to its start has read up to its end.
type silence struct {
	mu       sync.Mutex
	from, to mq.Position
	looked   time.Time
}

// follow moves a reader that has read everything past the chunks of other tables,
// so that the id of its next keepalive is as young as the queue: one of a quiet
// table would fall out of what is kept.
func (s *subscriber) follow() {
	if !s.caught || s.gap != nil || s.pos.midChunk() {
		return
	}
	quiet := &s.topic.silence
	if !quiet.mu.TryLock() {
		return // another reader looks: the next keepalive will do
	}
	defer quiet.mu.Unlock()
	if !quiet.covers(s.pos.Position) || s.pos.Position == quiet.to {
		s.listen(quiet)
	}
	if quiet.covers(s.pos.Position) {
		s.pos = after(quiet.to)
	}
}

// covers reports whether a reader at p may go to the end.
func (q *silence) covers(p mq.Position) bool {
	start, ok := q.from.Compare(p)
	end, same := p.Compare(q.to)
	return ok && same && start <= 0 && end <= 0
}

// errHeard: there is a chunk, which the feed brings.
var errHeard = errors.New("the topic is not silent")

// listen finds out whether the topic was silent from the reader's position to the
// tail. History says so, since a chunk may be durable before the feed shows it.
func (s *subscriber) listen(quiet *silence) {
	now := s.hub.o.Now()
	if now.Sub(quiet.looked) < followEvery {
		return
	}
	quiet.looked = now
	select {
	case s.hub.slots <- struct{}{}:
		defer func() { <-s.hub.slots }()
	default:
		return // others read history: they come first
	}
	tail, err := s.hub.o.Broker.Tail(s.ctx, s.topic.Topic)
	if err != nil || !s.pos.Before(tail) {
		return
	}
	err = s.hub.o.Broker.Replay(s.ctx, s.topic.Topic, s.pos.Position, tail, func(mq.Chunk, mq.Position) error { return errHeard })
	if err == nil {
		quiet.from, quiet.to = s.pos.Position, tail
	}
}
