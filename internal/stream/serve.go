package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Serve streams rows to the client and returns when the stream is over. It
// returns an error only when it refused before writing anything: an *Error, or
// what the subscription's Grant returned.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, sub Subscription) error {
	s := h.newSubscriber(r.Context(), sub)
	defer s.cancel()
	start, err := s.parsePosition()
	if err != nil {
		return err
	}
	if err := h.waitReady(s.ctx); err != nil {
		return err
	}
	if err := h.register(s); err != nil {
		return err
	}
	defer h.unregister(s)
	tail, err := s.settle(start)
	if over, ok := errors.AsType[*Over](err); ok {
		s.end(over.Reason)
	}
	switch {
	case s.ending() != "":
		s.endAtOnce(w, r)
	case err != nil:
		return err
	default:
		s.run(w, r, tail)
	}
	return nil
}

// endAtOnce says why the stream ends that was opening when it was asked to. It
// gives no position, so that the client keeps the one it has.
func (s *subscriber) endAtOnce(w http.ResponseWriter, r *http.Request) {
	s.out = newOutput(w, r, s, s.hub.o.WriteTimeout)
	defer s.close()
	err := s.out.start()
	if err == nil {
		err = s.out.write(appendOpening(nil, nil))
	}
	if err == nil {
		err = errEnded
	}
	s.farewell(err)
}

func (h *Hub) newSubscriber(ctx context.Context, sub Subscription) *subscriber {
	s := &subscriber{sub: sub, hub: h, wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

func (h *Hub) waitReady(ctx context.Context) error {
	select {
	case <-h.ready:
		return nil
	default:
	}
	timer := time.NewTimer(readyTimeout)
	defer timer.Stop()
	select {
	case <-h.ready:
		return nil
	case <-ctx.Done():
		return unavailable("the live feed is not running yet", ctx.Err())
	case <-timer.C:
		return unavailable("the live feed is not running yet", nil)
	}
}

// run is the life of an open stream: history up to the tail, then the backlog,
// and back to history whenever the hub took the backlog away.
func (s *subscriber) run(w http.ResponseWriter, r *http.Request, tail mq.Position) {
	// The client's leaving, the token's end and the wheel are signals like a
	// new chunk is, so an idle stream waits for one channel.
	stop := context.AfterFunc(s.ctx, s.signal)
	defer stop()
	left, reason := s.lifetime()
	timer := time.AfterFunc(left, func() { s.end(reason) })
	defer timer.Stop()
	defer s.hub.wheel.remove(s.sit())

	s.out = newOutput(w, r, s, s.hub.o.WriteTimeout)
	defer s.close()
	err := s.greet()
	for err == nil {
		if err = s.replay(tail); err != nil {
			break
		}
		if err = s.live(); err != nil {
			break
		}
		tail, err = s.reattach()
	}
	s.farewell(err)
}

// lifetime is how long the stream may stay open, and why not longer.
func (s *subscriber) lifetime() (time.Duration, string) {
	most := s.hub.o.MaxLifetime
	most -= rand.N(most/4 + 1)
	if s.sub.Expires.IsZero() {
		return most, EndLifetime
	}
	if left := s.sub.Expires.Sub(s.hub.o.Now()); left < most {
		return left, EndTokenExpired
	}
	return most, EndLifetime
}

// errEnded: the stream was asked to end, or the client left.
var errEnded = errors.New("stream ended")

// greet opens the stream.
func (s *subscriber) greet() error {
	if err := s.out.start(); err != nil {
		return err
	}
	var id []byte
	if s.gap == nil { // else the gap brings it
		id = s.topic.projector.ids.append(nil, s.pos)
		s.shown = s.pos
	}
	if err := s.out.write(appendOpening(nil, id)); err != nil {
		return err
	}
	return s.out.flush()
}

// live delivers from the backlog until the hub takes it away (nil) or the
// stream is over.
func (s *subscriber) live() error {
	s.caught = false
	for {
		if err := s.drain(); err != nil {
			return err
		}
		s.count()
		if s.cursor.Load() == nil {
			s.noteDetached()
			return nil
		}
		if err := s.tellGap(); err != nil {
			return err
		}
		if err := s.out.flush(); err != nil {
			return err
		}
		s.caught, s.behind = true, time.Time{}
		if err := s.attend(); err != nil {
			return err
		}
		<-s.wake
	}
}

// noteDetached starts the clock of a reader that was live.
func (s *subscriber) noteDetached() {
	if at := s.detachedAt.Load(); s.caught && s.behind.IsZero() && at != 0 {
		s.behind = time.Unix(0, at)
	}
}

// drain delivers what waits in the backlog.
func (s *subscriber) drain() error {
	var oldest time.Time
	for s.ctx.Err() == nil {
		at := s.cursor.Load()
		if at == nil {
			break
		}
		it := at.item.Load()
		if it == nil {
			break
		}
		// Claim the chunk before it is written: then the hub can take away
		// only what comes after it.
		if !s.cursor.CompareAndSwap(at, it.next) {
			break
		}
		s.read.Store(it.behind)
		if it.hole != nil {
			s.fall(*it.hole)
			continue
		}
		if oldest.IsZero() {
			oldest = it.chunk.Received
		}
		if err := s.deliver(&it.chunk, true); err != nil {
			return err
		}
	}
	if !s.out.dirty || oldest.IsZero() {
		return nil
	}
	if err := s.out.flush(); err != nil {
		return err
	}
	s.hub.metrics.latency.Observe(s.hub.o.Now().Sub(oldest).Seconds())
	return nil
}

// fall deals with what the feed did not show: s goes back to history for it,
// unless it has read that far, or history lacks it too.
func (s *subscriber) fall(h mq.Hole) {
	switch order, ok := s.pos.Compare(h.Until); {
	case !ok || order >= 0:
	case h.Gone:
		s.skipTo(after(h.Until), GapRetention)
	default:
		s.cursor.Store(nil)
		s.detachedAt.Store(s.hub.o.Now().UnixNano())
	}
}

// attend sees to what is not a row: the stream's end and its keepalive.
func (s *subscriber) attend() error {
	if s.ctx.Err() != nil || s.ending() != "" {
		return errEnded
	}
	if !s.behind.IsZero() && s.hub.o.Now().Sub(s.behind) > s.hub.o.MaxLag {
		s.end(EndSlowConsumer)
		return errEnded
	}
	if !s.keepalive.Swap(false) {
		return nil
	}
	// A quiet table's readers learn here that they lost access.
	if _, err := s.sub.Grant(); err != nil {
		s.end(endOf(err))
		return errEnded
	}
	s.follow()
	var id []byte
	if s.gap == nil && s.pos != s.shown {
		id = s.topic.projector.ids.append(nil, s.pos)
		s.shown = s.pos
	}
	if err := s.out.write(appendKeepalive(nil, id)); err != nil {
		return err
	}
	return s.out.flush()
}

// reattach joins the backlog again and returns the tail up to which history
// has to be read.
func (s *subscriber) reattach() (mq.Position, error) {
	s.topic.attach(s)
	tail, err := s.hub.o.Broker.Tail(s.ctx, s.topic.Topic)
	if err != nil {
		return tail, s.giveUp("find the queue's tail", err)
	}
	return tail, nil
}

// giveUp ends the stream because history cannot be read. Nothing is lost: the
// client comes back with its last id.
func (s *subscriber) giveUp(doing string, err error) error {
	if s.ctx.Err() == nil {
		s.hub.log.Warn("stream ended: history cannot be read", "tenant", s.sub.Tenant,
			"table", s.sub.Table, "doing", doing, "error", err)
		s.end(EndUnavailable)
	}
	return errEnded
}

// farewell says why the stream ends, if the client is still there.
func (s *subscriber) farewell(err error) {
	reason := s.ending()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && reason == "":
		reason = EndSlowConsumer // too stuck to be told
	case errors.Is(err, errEnded) && reason != "":
		if s.out.write(appendEnd(nil, reason, retryAfter(reason))) == nil {
			_ = s.out.flush()
		}
	case reason == "":
		reason = "client"
	}
	s.count()
	s.hub.metrics.ended.WithLabelValues(s.sub.Tenant.String(), reason).Inc()
}

// retryAfter spreads the reconnects of streams that all end at once; 0 leaves
// the usual wait.
func retryAfter(reason string) time.Duration {
	if reason != EndShutdown && reason != EndUnavailable {
		return 0
	}
	return time.Second + rand.N(4*time.Second)
}

func (s *subscriber) count() {
	if s.out.sent > 0 {
		s.topic.counts.bytes.Add(float64(s.out.sent))
		s.out.sent = 0
	}
}
