package embedded

import (
	"context"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// fromStream delivers what was read ahead, or reads.
func (s *source) fromStream(next uint64, wait time.Duration) (*delivery, time.Duration) {
	for len(s.ahead) > 0 && s.ahead[0].seq != next {
		s.popAhead()
	}
	if len(s.ahead) == 0 {
		return nil, min(s.readAhead(next), wait)
	}
	h := s.popAhead()
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if s.q.acked.Done(h.seq) {
		return nil, 0
	}
	return s.deliverFirstLocked(&h), 0
}

func (s *source) pushAhead(h buffered) {
	s.q.b.ahead.Add(h.size())
	s.ahead = append(s.ahead, h)
}

func (s *source) popAhead() buffered {
	h := s.ahead[0]
	s.ahead[0] = buffered{}
	s.ahead = s.ahead[1:]
	s.q.b.ahead.Add(-h.size())
	return h
}

// readAhead reads the next chunks from the stream, or just one where all
// tenants together have much ahead. It returns how long to wait before another
// try, 0 when something was read or skipped.
func (s *source) readAhead(next uint64) time.Duration {
	s.q.mu.Lock()
	generation := s.q.generation
	s.q.mu.Unlock()
	batch := jetstream.ReadBatch
	if s.q.b.ahead.Load() >= maxAhead {
		batch = 1
	}
	if s.q.hurtAt(next) {
		return 250 * time.Millisecond // until it is repaired
	}
	msgs, err := s.q.b.reads.From(s.c.ctx, ingestStream(s.q.tenant), "", next, batch, jetstream.ReadBytes)
	if err != nil {
		return s.readFailed(next, generation, err)
	}
	s.unread = 0
	s.q.mu.Lock()
	stale := generation != s.q.generation
	s.q.mu.Unlock()
	if stale {
		return 0
	}
	var holes []ledger.Range
	for i := range msgs {
		h := decoded(&msgs[i])
		if h.seq > next {
			holes = append(holes, ledger.Range{Lo: next, Hi: h.seq - 1})
		}
		next = h.seq + 1
		s.pushAhead(*h)
	}
	s.q.lose(generation, holes...)
	return 0
}

// maxUnread is how often a sequence is tried before the files are looked at, and
// again before it is called unreadable.
const maxUnread = 5

// readFailed decides about a sequence that should be in the stream. A stream
// that cannot be asked is asked again; a message that is gone is skipped; one
// that is damaged is delivered as what is left of it, so that it is parked
// with a reason and does not stop the queue.
func (s *source) readFailed(next, generation uint64, err error) time.Duration {
	if s.c.ctx.Err() != nil || !errors.Is(err, jetstream.ErrNoMessage) {
		if s.c.ctx.Err() == nil {
			s.q.log.Warn("queue cannot be read", "seq", next, "error", err)
		}
		return 250 * time.Millisecond
	}
	first, last, err := s.q.bounds(s.c.ctx)
	switch {
	case err != nil:
		return 250 * time.Millisecond
	case next < first:
		s.q.lose(generation, ledger.Range{Lo: next, Hi: first - 1})
		return 0
	case next > last:
		return 250 * time.Millisecond
	}
	if s.unread++; s.unread == maxUnread {
		s.q.b.hurt.Store(true) // a closer look tells what can be saved
	}
	if s.unread < 2*maxUnread {
		return 250 * time.Millisecond
	}
	s.unread = 0
	s.q.log.Error("stored chunk is damaged", "stream", ingestStream(s.q.tenant), "seq", next)
	s.pushAhead(buffered{seq: next, chunk: mq.Chunk{Topic: mq.Topic{Tenant: s.q.tenant}}})
	return 0
}

// bounds asks the stream which sequences it has.
func (q *queue) bounds(ctx context.Context) (first, last uint64, err error) {
	info, err := jetstream.Info(ctx, q.b.host.js, ingestStream(q.tenant))
	if err != nil {
		return 0, 0, err
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

func decoded(m *jetstream.Stored) *buffered {
	return &buffered{seq: m.Seq, chunk: jetstream.DecodeChunk(m.Subject, m.Header, m.Data)}
}
