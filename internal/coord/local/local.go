// Package local is the coordination of a process that is alone: it always
// holds every lease, and is the only member of every group.
package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/coord"
)

var _ coord.Coordinator = (*Coordinator)(nil)

// self names the only process there is.
const self = "local"

// Coordinator is the local coord.Coordinator.
type Coordinator struct {
	ctx    context.Context
	cancel context.CancelFunc

	// mu guards the rest.
	mu     sync.Mutex
	closed bool
	leases map[string]chan struct{}
	token  coord.Token // the newest of all leases
	tasks  sync.WaitGroup
}

// New returns a Coordinator; Close ends it.
func New() *Coordinator {
	c := &Coordinator{leases: map[string]chan struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Elect implements coord.Coordinator. Two calls under one name run one after
// the other.
func (c *Coordinator) Elect(ctx context.Context, name string, run func(context.Context, coord.Token) error) error {
	lease, err := c.enter(name)
	if err != nil {
		return err
	}
	defer c.tasks.Done()
	ctx, cancel := c.bind(ctx)
	defer cancel()
	select {
	case lease <- struct{}{}:
		defer func() { <-lease }()
	case <-ctx.Done():
		return fmt.Errorf("wait for lease %q: %w", name, context.Cause(ctx))
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("wait for lease %q: %w", name, err)
	}
	return run(ctx, c.next())
}

// next makes a token. The clock keeps them above those of former processes.
func (c *Coordinator) next() coord.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = max(c.token+1, coord.Token(time.Now().UnixNano()))
	return c.token
}

// Members implements coord.Coordinator.
func (c *Coordinator) Members(ctx context.Context, group string) (coord.Membership, error) {
	if err := ctx.Err(); err != nil {
		return coord.Membership{}, fmt.Errorf("join group %q: %w", group, err)
	}
	if _, err := c.enter(""); err != nil {
		return coord.Membership{}, err
	}
	changes := make(chan []string)
	ctx, cancel := c.bind(ctx)
	go func() {
		defer c.tasks.Done()
		defer cancel()
		<-ctx.Done()
		close(changes)
	}()
	return coord.Membership{Self: self, Members: []string{self}, Changes: changes}, nil
}

// Close implements coord.Coordinator.
func (c *Coordinator) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return coord.ErrClosed
	}
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	done := make(chan struct{})
	go func() { c.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close coordination: %w", ctx.Err())
	}
}

// enter counts a call that Close waits for, and returns the named lease.
func (c *Coordinator) enter(name string) (chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, coord.ErrClosed
	}
	c.tasks.Add(1)
	lease := c.leases[name]
	if lease == nil {
		lease = make(chan struct{}, 1)
		c.leases[name] = lease
	}
	return lease, nil
}

// bind returns a context that ends with ctx or when c closes.
func (c *Coordinator) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(coord.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}
