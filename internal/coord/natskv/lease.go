package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// renewEvery is the time between renewals, and between looks at a lease that
	// another holds.
	renewEvery = 2 * time.Second
	// giveUpAfter is how long after the start of the last renewal that was
	// confirmed a holder stops.
	giveUpAfter = 10 * time.Second
	// takeAfter is how long a lease must stand still, as seen by this process, for
	// it to be taken.
	takeAfter = 15 * time.Second
	// requestTimeout bounds one request; retryEvery is the time between requests
	// that fail.
	requestTimeout = 2 * time.Second
	retryEvery     = 500 * time.Millisecond
)

// errLost is why a holder's context ends when it could not renew in time, or
// another holds.
var errLost = errors.New("the lease is lost")

// record is a lease's value. An empty Holder is nobody.
type record struct {
	Holder string `json:"holder"`
	// Nonce tells one holding of a lease from others by the same process.
	Nonce string `json:"nonce,omitempty"`
}

func read(e Entry) record {
	var r record
	if json.Unmarshal(e.Value, &r) != nil {
		r.Holder = "unreadable"
	}
	return r
}

// sight is a lease as it was first seen at a revision.
type sight struct {
	revision uint64
	at       time.Duration // of the monotonic clock
}

// lease is one name that this process holds or wants.
type lease struct {
	c     *Coordinator
	key   string
	mine  record
	value []byte
	seen  sight
}

func (c *Coordinator) newLease(key string, mine record) *lease {
	value, _ := json.Marshal(mine) // never fails
	return &lease{c: c, key: key, mine: mine, value: value}
}

// take waits until the lease is held. An error is ctx's.
func (l *lease) take(ctx context.Context) (*held, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		h, wait := l.try(ctx)
		if h != nil {
			return h, nil
		}
		if err := l.c.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// try takes a lease that is free. A nil held says when to look again.
func (l *lease) try(ctx context.Context) (*held, time.Duration) {
	e, found, err := l.get(ctx)
	if err != nil {
		l.c.failed(err)
		return nil, retryEvery
	}
	if found && !l.free(e) {
		return nil, renewEvery / 2
	}
	h, err := l.claim(ctx, e.Revision)
	switch {
	case err == nil:
		return h, 0
	case errors.Is(err, ErrRevision): // another was faster, or what was read is old
		return nil, renewEvery / 2
	}
	l.c.failed(err)
	return nil, retryEvery
}

// free reports whether the lease may be taken: nobody holds it, or this call does
// without knowing, its answer being lost, or it stood still for long enough.
func (l *lease) free(e Entry) bool {
	if r := read(e); r.Holder == "" || r == l.mine {
		return true
	}
	now := l.c.o.Clock.Now().Mono
	if l.seen.revision != e.Revision {
		l.seen = sight{e.Revision, now}
	}
	return now-l.seen.at >= takeAfter
}

// claim sets the lease, which is then held from when the request was made.
func (l *lease) claim(ctx context.Context, revision uint64) (*held, error) {
	asked := l.c.o.Clock.Now()
	next, err := l.set(ctx, l.value, revision)
	if err != nil {
		return nil, err
	}
	return newHeld(ctx, l, next, asked), nil
}

func (l *lease) get(ctx context.Context) (Entry, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return l.c.o.Bucket.Get(ctx, l.key)
}

func (l *lease) set(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return l.c.o.Bucket.Update(ctx, l.key, value, revision)
}

// held is a lease that this process holds: a context that ends when it does not
// any more. Err looks at the clock, so that a process that was paused learns of
// the end before it does anything else.
type held struct {
	context.Context
	end   context.CancelCauseFunc
	lease *lease
	// token is the revision that the lease was taken at.
	token uint64
	// kept is closed when nobody renews any more.
	kept chan struct{}

	// revision is the keeper's, and after it whoever resigns'.
	revision uint64

	mu      sync.Mutex
	renewed Instant // guarded by mu
}

func newHeld(ctx context.Context, l *lease, revision uint64, asked Instant) *held {
	h := &held{lease: l, token: revision, kept: make(chan struct{}), revision: revision, renewed: asked}
	h.Context, h.end = context.WithCancelCause(ctx)
	return h
}

// Err implements context.Context.
func (h *held) Err() error {
	if h.left() <= 0 {
		h.end(errLost)
	}
	return h.Context.Err()
}

// left is how long the lease is held without another renewal.
func (h *held) left() time.Duration {
	h.mu.Lock()
	renewed := h.renewed
	h.mu.Unlock()
	return giveUpAfter - h.lease.c.o.Clock.Now().since(renewed)
}

// keep renews until the context ends, and ends it when that fails for too long.
func (h *held) keep() {
	defer close(h.kept)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		h.watch()
	}()
	defer func() { <-watched }()
	wait := renewEvery
	for h.lease.c.sleep(h, wait) == nil {
		wait = h.renew()
	}
}

// watch ends the context in time, whatever the renewals do.
func (h *held) watch() {
	for h.Err() == nil {
		// Not until the end in one go: the wall clock may jump.
		_ = h.lease.c.sleep(h, min(h.left(), renewEvery))
	}
}

// renew returns when to do so again.
func (h *held) renew() time.Duration {
	asked := h.lease.c.o.Clock.Now()
	// The end of the context does not end it: whoever resigns has to know at which
	// revision the lease is.
	next, err := h.lease.set(context.WithoutCancel(h), h.lease.value, h.revision)
	switch {
	case err == nil:
		h.revision = next
		h.mu.Lock()
		h.renewed = asked
		h.mu.Unlock()
		return renewEvery
	case errors.Is(err, ErrRevision):
		return h.look()
	case h.Err() == nil:
		h.lease.c.failed(err)
	}
	return retryEvery
}

// look finds out who changed the lease: this process, by a renewal whose answer
// was lost, or another, to whom it is lost.
func (h *held) look() time.Duration {
	e, found, err := h.lease.get(h)
	switch {
	case err != nil || !found || e.Revision < h.revision: // of a while ago, perhaps
		return retryEvery
	case read(e) == h.lease.mine:
		again := e.Revision != h.revision
		h.revision = e.Revision
		if again {
			return 0
		}
		return retryEvery
	}
	h.end(fmt.Errorf("%w: %q holds it", errLost, read(e).Holder))
	return 0
}

// resign gives the lease up, so that another need not wait. The caller does
// nothing under it any more.
func (h *held) resign() {
	h.end(context.Canceled)
	<-h.kept
	ctx := context.WithoutCancel(h)
	err := h.lease.clear(ctx, h.revision)
	if errors.Is(err, ErrRevision) { // by a renewal whose answer was lost, perhaps
		if e, found, _ := h.lease.get(ctx); found && read(e) == h.lease.mine {
			err = h.lease.clear(ctx, e.Revision)
		}
	}
	if err != nil {
		h.lease.c.o.Logger.Debug("a lease is given up by waiting", "lease", h.lease.key, "error", err)
	}
}

// clear makes the lease nobody's.
func (l *lease) clear(ctx context.Context, revision uint64) error {
	value, _ := json.Marshal(record{}) // never fails
	_, err := l.set(ctx, value, revision)
	return err
}
