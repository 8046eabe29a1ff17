// Package lifetime counts the operations of what is closed in the end.
package lifetime

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Life counts operations, so that a Close can refuse new ones and wait for those
// under way.
type Life struct {
	over   error
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	ops    sync.WaitGroup
}

// New begins one; over is the error of whatever comes after its end.
func New(over error) *Life {
	l := &Life{over: over}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context ends with End.
func (l *Life) Context() context.Context { return l.ctx }

// Enter begins an operation; Leave ends it. The error is that of New.
func (l *Life) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.over
	}
	l.ops.Add(1)
	return nil
}

// Leave ends an operation.
func (l *Life) Leave() { l.ops.Done() }

// Begin is Enter with a context that ends with ctx or with the life; done ends
// the operation.
func (l *Life) Begin(ctx context.Context) (bound context.Context, done func(), err error) {
	if err := l.Enter(); err != nil {
		return nil, nil, err
	}
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(l.over) })
	return bound, func() { stop(); cancel(nil); l.Leave() }, nil
}

// Close refuses operations from now on; the error of New when it did before.
func (l *Life) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.over
	}
	l.closed = true
	return nil
}

// End ends the context of every operation and waits for them until ctx ends.
func (l *Life) End(ctx context.Context) error {
	l.cancel()
	return Wait(ctx, &l.ops)
}

// Pause waits for d; false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Wait waits for g until ctx ends. The goroutine that it needs ends with g, whose
// members are to end soon in any case.
func Wait(ctx context.Context, g *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("operations under way: %w", ctx.Err())
	}
}
