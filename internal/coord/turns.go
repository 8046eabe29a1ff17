package coord

import (
	"context"
	"fmt"
	"sync"

	"github.com/wavehouse/wavehouse/internal/lifetime"
)

// Turns are what implementations of Coordinator share: calls that Close ends and
// waits for, of which those about one lease take turns within a process.
type Turns struct {
	life *lifetime.Life

	mu    sync.Mutex
	taken map[string]chan struct{} // by lease, with one place each
}

// NewTurns begins them.
func NewTurns() *Turns {
	return &Turns{life: lifetime.New(ErrClosed), taken: map[string]chan struct{}{}}
}

// Begin counts a call. bound ends with ctx or at Close; done ends the call.
func (t *Turns) Begin(ctx context.Context) (bound context.Context, done func(), err error) {
	return t.life.Begin(ctx)
}

// Take is Begin that waits for the turn at a lease, which done gives up.
func (t *Turns) Take(ctx context.Context, lease string) (bound context.Context, done func(), err error) {
	bound, end, err := t.life.Begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	turn := t.of(lease)
	select {
	case turn <- struct{}{}:
		return bound, func() { <-turn; end() }, nil
	case <-bound.Done():
		err := context.Cause(bound)
		end()
		return nil, nil, fmt.Errorf("wait for lease %q: %w", lease, err)
	}
}

func (t *Turns) of(lease string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := t.taken[lease]
	if turn == nil {
		turn = make(chan struct{}, 1)
		t.taken[lease] = turn
	}
	return turn
}

// Close ends every call and waits for them until ctx ends; ErrClosed when it did
// before.
func (t *Turns) Close(ctx context.Context) error {
	if err := t.life.Close(); err != nil {
		return err
	}
	if err := t.life.End(ctx); err != nil {
		return fmt.Errorf("close coordination: %w", err)
	}
	return nil
}
