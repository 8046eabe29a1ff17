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
	turns *coord.Turns

	mu    sync.Mutex
	token coord.Token // the newest of all leases
}

// New returns a Coordinator; Close ends it.
func New() *Coordinator { return &Coordinator{turns: coord.NewTurns()} }

// Elect implements coord.Coordinator. Two calls under one name run one after
// the other.
func (c *Coordinator) Elect(ctx context.Context, name string, run func(context.Context, coord.Token) error) error {
	ctx, done, err := c.turns.Take(ctx, name)
	if err != nil {
		return err
	}
	defer done()
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
	ctx, done, err := c.turns.Begin(ctx)
	if err != nil {
		return coord.Membership{}, err
	}
	changes := make(chan []string)
	go func() {
		defer done()
		<-ctx.Done()
		close(changes)
	}()
	return coord.Membership{Self: self, Members: []string{self}, Changes: changes}, nil
}

// Close implements coord.Coordinator.
func (c *Coordinator) Close(ctx context.Context) error { return c.turns.Close(ctx) }
