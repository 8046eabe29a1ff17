package dedupe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/lifetime"
)

const (
	// tripAfter is how many calls in a row fail before a store is left alone.
	tripAfter = 5
	// probeAfter is for how long, before a call may find out whether it is back.
	probeAfter = time.Second
)

// Guard stands before a store that is elsewhere: it bounds each call, answers for
// a store that fails again and again, and waits for what is under way at the end.
type Guard struct {
	timeout time.Duration // of one call

	life *lifetime.Life

	mu       sync.Mutex
	failures int       // in a row
	probe    time.Time // when the next call may pass, once there are tripAfter
	probing  bool
	cause    error
}

var errClosed = fmt.Errorf("%w: it is closed", ErrUnavailable)

// NewGuard bounds each call by timeout.
func NewGuard(timeout time.Duration) *Guard {
	return &Guard{timeout: timeout, life: lifetime.New(errClosed)}
}

// Do runs one call. Its error wraps ErrUnavailable.
func (g *Guard) Do(ctx context.Context, op func(context.Context) error) error {
	return g.run(ctx, false, op)
}

// Force is Do that asks a store that failed again and again, too.
func (g *Guard) Force(ctx context.Context, op func(context.Context) error) error {
	return g.run(ctx, true, op)
}

func (g *Guard) run(ctx context.Context, force bool, op func(context.Context) error) error {
	if err := g.life.Enter(); err != nil {
		return err
	}
	defer g.life.Leave()
	probing, err := g.enter(force)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	err = op(bounded)
	g.leave(probing, err, ctx.Err() != nil)
	if err != nil && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

func (g *Guard) enter(force bool) (probing bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case force, g.failures < tripAfter:
	case g.probing || time.Now().Before(g.probe):
		return false, fmt.Errorf("%w: %d calls in a row failed: %w", ErrUnavailable, g.failures, g.cause)
	default:
		g.probing, probing = true, true
	}
	return probing, nil
}

// leave notes how a call went. One whose caller gave up says nothing.
func (g *Guard) leave(probing bool, err error, gaveUp bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if probing {
		g.probing = false
	}
	switch {
	case err == nil:
		g.failures, g.cause = 0, nil
	case !gaveUp:
		g.failures++
		g.cause, g.probe = err, time.Now().Add(probeAfter)
	}
}

// Close refuses later calls and waits for those under way until ctx ends.
func (g *Guard) Close(ctx context.Context) error {
	_ = g.life.Close() // a second time it waits, too
	if err := g.life.End(ctx); err != nil {
		return fmt.Errorf("close the store of seen ids while it is used: %w", err)
	}
	return nil
}
