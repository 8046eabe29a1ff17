package stream

import (
	"context"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// errBatchFull stops a history read that has taken its fill.
var errBatchFull = errors.New("batch is full")

// parsePosition reads Last-Event-ID; nil when there is none.
func (s *subscriber) parsePosition() (*resumption, error) {
	if !s.sub.HasLastEventID || s.sub.LastEventID == "" {
		return nil, nil
	}
	p, err := s.hub.o.IDs.of(mq.Topic{Tenant: s.sub.Tenant, Table: s.sub.Table}).parse(s.sub.LastEventID)
	if err != nil {
		return nil, &Error{Code: CodePositionInvalid, Message: err.Error()}
	}
	return &p, nil
}

// settle decides where the stream starts and returns the tail up to which
// history has to be read. It runs after the registration: every row that is
// not in history up to the tail comes through the backlog, and a tenant that
// stopped being served either told this subscriber or fails its grant.
func (s *subscriber) settle(resume *resumption) (mq.Position, error) {
	grant, err := s.sub.Grant()
	if err != nil {
		return mq.Position{}, err
	}
	// Before the first chunk, so that the first to project it knows how many
	// will share.
	s.member(view{grant, s.sub.Render})
	tail, err := s.hub.o.Broker.Tail(s.ctx, s.topic.Topic)
	if err != nil {
		return tail, unavailable("the queue cannot be read", err)
	}
	switch {
	case resume != nil:
		s.resume(*resume, tail)
	case !s.sub.Since.IsZero():
		err = s.startAt(s.sub.Since)
	default:
		s.pos = after(tail)
	}
	return tail, err
}

// resume continues at r. A position that the queue never gave out, of another
// queue or ahead of the tail, has no rows that follow it: the stream goes on live
// and says so.
func (s *subscriber) resume(r resumption, tail mq.Position) {
	var ok bool
	if s.pos, ok = r.in(tail); !ok {
		s.pos = after(tail)
		s.gap = &missed{from: s.sub.LastEventID, to: s.pos, reason: GapReset}
	}
}

// startAt starts at the first row received at or after since. When the queue's
// own start is later than since because history was removed, that is a gap.
func (s *subscriber) startAt(since time.Time) error {
	at, err := s.hub.o.Broker.PositionAt(s.ctx, s.topic.Topic, since)
	if err != nil {
		return unavailable("the queue cannot be read", err)
	}
	s.pos, s.notBefore = after(at), since
	if s.hub.o.Now().Sub(since) <= s.sub.GapWindow {
		return nil
	}
	first, err := s.hub.o.Broker.FirstKept(s.ctx, s.topic.Topic)
	if err != nil {
		return unavailable("the queue cannot be read", err)
	}
	if at.Before(first) {
		s.pos = position{row: wholeChunk}
		s.skipTo(after(first.Prev()), GapRetention)
	}
	return nil
}

// replay delivers history up to and including until.
func (s *subscriber) replay(until mq.Position) error {
	defer func() { s.buf = nil }()
	for !s.reached(until) {
		release, err := s.takeBatch()
		if err != nil {
			return err
		}
		err = s.replayBatch(until)
		release()
		if err != nil {
			return err
		}
		s.replayed = true
	}
	return nil
}

// replayBatch delivers the next batch of history.
func (s *subscriber) replayBatch(until mq.Position) error {
	batch, err := s.readHistory(until)
	var gap *mq.ReplayGap
	switch {
	case errors.As(err, &gap):
		s.skipGone(gap, until)
		return nil
	case err == nil, errors.Is(err, errBatchFull):
		full := err != nil
		if err = s.deliverBatch(batch); err == nil && !full {
			s.advance(until)
		}
	case !errors.Is(err, errEnded):
		err = s.giveUp("replay", err)
	}
	return err
}

// takePatience is how long memory is waited for between looks at what else there is
// to do, and takePause how long is left between tries that do not wait.
const (
	takePatience = 500 * time.Millisecond
	takePause    = 50 * time.Millisecond
)

// takeBatch waits for the memory of a batch and its rendering, and keeps the
// connection alive meanwhile.
func (s *subscriber) takeBatch() (release func(), err error) {
	memory := s.hub.o.Memory
	if memory == nil {
		return func() {}, nil
	}
	n := 2 * int64(s.hub.o.ReplayBatchBytes)
	for {
		ctx, cancel := context.WithTimeout(s.ctx, takePatience)
		taken := memory.TakeWithin(ctx, s.sub.Tenant, n)
		cancel()
		if taken {
			return func() { memory.Give(s.sub.Tenant, n) }, nil
		}
		if err := s.attend(); err != nil {
			return nil, err
		}
		select {
		case <-s.wake:
		case <-time.After(takePause):
		}
	}
}

// reached reports whether nothing up to until is left to read.
func (s *subscriber) reached(until mq.Position) bool {
	if until.IsZero() {
		return true
	}
	order, ok := s.pos.Compare(until)
	return ok && (order > 0 || order == 0 && !s.pos.midChunk())
}

// advance moves to until, which lies behind the last chunk of this table.
func (s *subscriber) advance(until mq.Position) {
	if !s.reached(until) {
		s.pos = after(until)
	}
}

// skipGone moves past history that is gone. What is gone beyond until may still
// be in the backlog, so it never moves past it.
func (s *subscriber) skipGone(gap *mq.ReplayGap, until mq.Position) {
	to := after(until)
	if order, ok := gap.First.Compare(until); ok && order <= 0 && !gap.First.IsZero() {
		to = after(gap.First.Prev())
	}
	if order, ok := s.pos.from().Compare(to.Position); ok && order >= 0 {
		to = after(until) // a gap that ends before it starts: do not ask again
	}
	reason := GapRetention
	switch {
	case gap.Reason == GapReset:
		reason = GapReset
	case s.replayed || s.caught:
		reason = GapOverflow
	}
	s.skipTo(to, reason)
}

// replayed is one chunk of history.
type replayed struct {
	chunk mq.Chunk
	pos   mq.Position
}

// readHistory takes the next batch into memory. The slot is given back before
// anything is written: a client that does not read holds its batch, and nobody
// else's turn.
func (s *subscriber) readHistory(until mq.Position) ([]replayed, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	s.hub.metrics.replaying.Inc()
	defer func() {
		s.hub.metrics.replaying.Dec()
		<-s.hub.slots
	}()
	var batch []replayed
	bytes := 0
	err := s.hub.o.Broker.Replay(s.ctx, s.topic.Topic, s.pos.from(), until, func(c mq.Chunk, p mq.Position) error {
		batch = append(batch, replayed{c, p})
		if bytes += len(c.Body); bytes >= s.hub.o.ReplayBatchBytes || len(batch) >= maxBatchChunks {
			return errBatchFull
		}
		return nil
	})
	return batch, err
}

// maxBatchChunks bounds a batch of very small chunks.
const maxBatchChunks = 2048

// acquire waits for a slot and keeps the connection alive meanwhile.
func (s *subscriber) acquire() error {
	select {
	case s.hub.slots <- struct{}{}:
		return nil
	default:
	}
	s.hub.metrics.waiting.Inc()
	defer s.hub.metrics.waiting.Dec()
	for {
		if err := s.attend(); err != nil {
			return err
		}
		select {
		case s.hub.slots <- struct{}{}:
			return nil
		case <-s.wake:
		}
	}
}

func (s *subscriber) deliverBatch(batch []replayed) error {
	for i := range batch {
		if err := s.attend(); err != nil {
			return err
		}
		c := &sharedChunk{Chunk: batch[i].chunk, pos: batch[i].pos}
		if err := s.deliver(c, false); err != nil {
			return err
		}
		batch[i] = replayed{} // written: its body may go
	}
	err := s.out.flush()
	s.count()
	return err
}
