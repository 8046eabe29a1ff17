package schema

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// errNotServed says that the tenant has no discovery.
var errNotServed = errors.New("the tenant is not served")

// errStopped says that discovery has stopped, or has not begun.
var errStopped = errors.New("schema discovery is not running")

// RefreshEarly discovers before the time has come, because a caller met a name
// that is not in the catalogue. It does so once in EarlyInterval per tenant on
// average; when it was asked more often it returns the catalogue as it is.
func (s *Store) RefreshEarly(ctx context.Context, id tenant.ID) (*Catalogue, error) {
	s.mu.Lock()
	e := s.tenants[id]
	if e == nil {
		s.mu.Unlock()
		return nil, errNotServed
	}
	now := s.o.Now()
	if now.Sub(e.early[0]) < earlyBurst*s.o.EarlyInterval {
		// Those who came for the same new table wait for the one that runs.
		running, known := e.current, e.catalogue
		s.mu.Unlock()
		if running != nil {
			return running.wait(ctx)
		}
		return known, nil
	}
	copy(e.early[:], e.early[1:])
	e.early[earlyBurst-1] = now
	c := s.requestLocked(e)
	s.mu.Unlock()
	return c.wait(ctx)
}

// Refresh discovers now: what ClickHouse has when it is called is known when
// it returns nil.
func (s *Store) Refresh(ctx context.Context, id tenant.ID) error {
	s.mu.Lock()
	e := s.tenants[id]
	if e == nil {
		s.mu.Unlock()
		return errNotServed
	}
	c := s.requestLocked(e)
	s.mu.Unlock()
	_, err := c.wait(ctx)
	return err
}

// requestLocked returns a discovery that begins from now on: one that runs
// already may have read the tables before the caller changed them.
func (s *Store) requestLocked(e *entry) *call {
	switch {
	case e.current == nil:
		e.current = &call{done: make(chan struct{})}
	case e.cancel != nil:
		if e.following == nil {
			e.following = &call{done: make(chan struct{})}
		}
		return e.following
	}
	c := e.current
	s.enqueueLocked(e, true)
	return c
}

// run is one discovery.
func (s *Store) run(ctx context.Context, e *entry, c *call, previous *Catalogue) {
	start := s.o.Now()
	catalogue, err := discover(ctx, s.o.Pools, e.id, previous, s.known, s.o.Now)
	s.metrics.refreshed(s.o.Now().Sub(start), err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(e)
	if e.gone {
		c.fail(errNotServed)
		if e.following != nil {
			e.following.fail(errNotServed)
		}
		return
	}
	s.settleLocked(e, c, catalogue, err)
}

// settleLocked publishes the outcome, schedules the next discovery, and asks for
// the one that was wanted meanwhile.
func (s *Store) settleLocked(e *entry, c *call, catalogue *Catalogue, err error) {
	c.catalogue, c.err = catalogue, err
	close(c.done)
	first := e.catalogue == nil
	e.current, e.lastErr = nil, err
	now := s.o.Now()
	switch {
	case err == nil:
		e.catalogue, e.failures, s.ever = catalogue, 0, true
		e.next = now.Add(e.interval)
		if first {
			// At a random point, so that tenants loaded together do not ask
			// together for ever after.
			e.next = now.Add(rand.N(e.interval) + 1)
			s.o.Logger.Info("schema discovered", "tenant", e.id, "tables", len(catalogue.sorted))
		}
	case first:
		wait := s.backoff(e.failures)
		e.failures++
		e.next = now.Add(wait)
		s.o.Logger.Warn("schema discovery failed", "tenant", e.id, "error", err, "retry_in", wait.String())
	default:
		e.failures++
		e.next = now.Add(e.interval)
		s.o.Logger.Warn("schema refresh failed; the tables known before are kept", "tenant", e.id, "error", err)
	}
	if next := e.following; next != nil {
		e.current, e.following = next, nil
		s.enqueueLocked(e, true)
	} else {
		s.putLocked(e)
	}
	s.poke()
}

func (c *call) fail(err error) {
	c.err = err
	close(c.done)
}

// wait waits for the discovery, or for ctx.
func (c *call) wait(ctx context.Context) (*Catalogue, error) {
	select {
	case <-c.done:
		return c.catalogue, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for schema discovery: %w", ctx.Err())
	}
}
