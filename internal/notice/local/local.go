// Package local carries the notices of a process that is alone.
package local

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// maxPending bounds the notices that wait to be handled, in bytes.
const maxPending = 8 << 20

// errEnded: nothing is handled any more.
var errEnded = errors.New("notices are not carried any more")

// Bus implements notice.Bus.
type Bus struct {
	handles  []func([]notice.Notice)
	progress func(mq.Topic) (notice.Progress, bool)
	wake     chan struct{} // has room for one
	ended    chan struct{}

	mu      sync.Mutex
	pending *batch
}

var _ notice.Bus = (*Bus)(nil)

// batch is what is handled together.
type batch struct {
	notices []notice.Notice
	weight  int
	done    chan struct{} // closed once all of it is handled
}

// New makes a Bus; Run carries.
func New() *Bus {
	return &Bus{wake: make(chan struct{}, 1), ended: make(chan struct{}), pending: newBatch()}
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// Listen implements notice.Bus.
func (b *Bus) Listen(handle func([]notice.Notice)) { b.handles = append(b.handles, handle) }

// Answer implements notice.Bus.
func (b *Bus) Answer(progress func(mq.Topic) (notice.Progress, bool)) { b.progress = progress }

// Tell implements notice.Bus.
func (b *Bus) Tell(n notice.Notice) {
	if len(b.handles) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pending
	if p.weight > maxPending {
		return // the last of it is a Lost
	}
	if p.weight += n.Weight(); p.weight > maxPending {
		n = notice.Lost{}
	}
	p.notices = append(p.notices, n)
	b.signal()
}

func (b *Bus) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Flush implements notice.Bus.
func (b *Bus) Flush(ctx context.Context) error {
	b.mu.Lock()
	done := b.pending.done
	b.signal()
	b.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-b.ended:
		return errEnded
	case <-ctx.Done():
		return fmt.Errorf("wait for notices to be handled: %w", context.Cause(ctx))
	}
}

// Progress implements notice.Bus.
func (b *Bus) Progress(_ context.Context, t mq.Topic) (notice.Progress, error) {
	if b.progress != nil {
		if p, ok := b.progress(t); ok {
			return p, nil
		}
	}
	return notice.Progress{}, fmt.Errorf("%w: %s", notice.ErrNoAnswer, t.Table)
}

// Run implements notice.Bus.
func (b *Bus) Run(ctx context.Context) error {
	defer close(b.ended)
	for {
		select {
		case <-b.wake:
			b.deliver()
		case <-ctx.Done():
			b.deliver()
			return nil
		}
	}
}

func (b *Bus) deliver() {
	b.mu.Lock()
	next := b.pending
	b.pending = newBatch()
	b.mu.Unlock()
	defer close(next.done)
	if len(next.notices) == 0 {
		return
	}
	for _, handle := range b.handles {
		handle(next.notices)
	}
}
