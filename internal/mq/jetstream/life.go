package jetstream

import (
	"context"
	"fmt"
	"sync"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Life counts a broker's operations, so that its Close can refuse new ones and
// wait for those under way.
type Life struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	ops    sync.WaitGroup
}

// NewLife begins one.
func NewLife() *Life {
	l := &Life{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context ends with End.
func (l *Life) Context() context.Context { return l.ctx }

// Enter begins an operation; Leave ends it. The error is mq.ErrClosed.
func (l *Life) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return mq.ErrClosed
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
	stop := context.AfterFunc(l.ctx, func() { cancel(mq.ErrClosed) })
	return bound, func() { stop(); cancel(nil); l.Leave() }, nil
}

// Close refuses operations from now on; mq.ErrClosed when it did before.
func (l *Life) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return mq.ErrClosed
	}
	l.closed = true
	return nil
}

// End ends the context of every operation and waits for them until ctx ends.
func (l *Life) End(ctx context.Context) error {
	l.cancel()
	done := make(chan struct{})
	// It ends with the operations, which all do soon after their context.
	go func() { l.ops.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("operations under way: %w", ctx.Err())
	}
}
