package stream

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// subscriber is one open stream. Its handler's goroutine owns what is not
// marked otherwise.
type subscriber struct {
	sub    Subscription
	topic  *topic
	hub    *Hub
	index  int // in the topic's list, guarded by its subsMu
	ctx    context.Context
	cancel context.CancelFunc

	// wake has room for one signal; every state below is looked at after it.
	wake chan struct{}
	// cursor is the link to read next, nil while detached from the backlog.
	// Its reader advances it, the hub detaches it.
	cursor atomic.Pointer[link]
	// read is the size of the backlog up to the cursor.
	read atomic.Int64
	// detachedAt is when the hub detached the cursor, in Unix nanoseconds.
	detachedAt atomic.Int64
	// keepalive is set by the wheel.
	keepalive atomic.Bool

	// mu orders ending against writing: see out and end.
	mu     sync.Mutex
	reason string
	seat   *seat                    // nil unless seated
	conn   *http.ResponseController // nil unless open

	out   *output
	pos   position // what was consumed
	shown position // what the last id that was written says
	// notBefore hides history that was received before the Since asked for: the
	// queue finds a time to within a few chunks.
	notBefore time.Time
	gap       *missed // to be told before the next row
	group     *group
	// behind is since when a stream that was live has been catching up.
	behind time.Time
	// caught is set while live, replayed once history was read.
	caught, replayed bool
	buf              []byte // of replays
}

// signal wakes the subscriber; it never blocks.
func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// detach takes the backlog from a reader that is too far behind, unless all
// that is waiting is a single chunk.
func (s *subscriber) detach(now time.Time) bool {
	at := s.cursor.Load()
	if at == nil {
		return false
	}
	if it := at.item.Load(); it == nil || it.next.item.Load() == nil {
		return false
	}
	if !s.cursor.CompareAndSwap(at, nil) {
		return false // it moved on
	}
	s.detachedAt.Store(now.UnixNano())
	return true
}

// end asks the stream to end; the first reason wins. A write that hangs is cut
// short, so a stuck client does not keep its handler.
func (s *subscriber) end(reason string) {
	s.mu.Lock()
	first := s.reason == ""
	if first {
		s.reason = reason
		if s.conn != nil {
			_ = s.conn.SetWriteDeadline(time.Now().Add(farewellTimeout))
		}
	}
	s.mu.Unlock()
	if first {
		s.cancel()
		s.signal()
	}
}

// ending returns why the stream must end, "" while it need not.
func (s *subscriber) ending() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// sit takes a seat in the wheel. The rhythm is asked for once more when Reseat can
// see the seat, since it may have changed meanwhile.
func (s *subscriber) sit() *seat {
	at := s.hub.wheel.add(s, s.rhythm())
	s.mu.Lock()
	s.seat = at
	s.mu.Unlock()
	s.reseat()
	return at
}

// reseat follows a change of the rhythm.
func (s *subscriber) reseat() {
	s.mu.Lock()
	at := s.seat
	s.mu.Unlock()
	if at != nil {
		s.hub.wheel.move(at, s.rhythm())
	}
}

func (s *subscriber) rhythm() rhythm {
	var interval time.Duration
	var buckets int
	if s.sub.Keepalive != nil {
		interval, buckets = s.sub.Keepalive()
	}
	return rhythm{orDefault(interval, defaultKeepalive), min(orDefault(buckets, defaultBuckets), maxBuckets)}
}

// open marks the connection as written to from now on.
func (s *subscriber) open(c *http.ResponseController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = c
}

// close keeps a late end from touching a connection that is no longer ours.
func (s *subscriber) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = nil
}
