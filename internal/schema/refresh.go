package schema

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// errNotServed says that the tenant has no discovery.
var errNotServed = errors.New("the tenant is not served")

// errStopped says that discovery has stopped, or has not begun.
var errStopped = errors.New("schema discovery is not running")

// RefreshEarly discovers before the time has come, because a caller met a name
// that is not in the catalogue. It does so once in EarlyInterval per tenant on
// average; when it was asked more often it returns the catalogue as it is.
//
// Where there is no catalogue yet it tries once in 2 s, before those who wait for
// their time, and waits no longer than that; the catalogue is nil when it was
// tried just before.
func (s *Store) RefreshEarly(ctx context.Context, id tenant.ID) (*Catalogue, error) {
	s.mu.Lock()
	m := s.tenants[id]
	if m == nil {
		s.mu.Unlock()
		return nil, errNotServed
	}
	if m.catalogue == nil {
		return s.firstEarly(ctx, m.entry)
	}
	now := s.o.Now()
	if now.Sub(m.early[0]) < earlyBurst*s.o.EarlyInterval {
		// Those who came for the same new table wait for the one that runs.
		running, known := m.current, m.catalogue
		s.mu.Unlock()
		if running != nil {
			return running.wait(ctx)
		}
		return known, nil
	}
	copy(m.early[:], m.early[1:])
	m.early[earlyBurst-1] = now
	c := s.requestLocked(m.entry)
	s.mu.Unlock()
	return c.wait(ctx)
}

// firstEarly is RefreshEarly of what was never discovered. The mutex is held,
// and given back.
func (s *Store) firstEarly(ctx context.Context, e *entry) (*Catalogue, error) {
	c, err := e.current, e.lastErr
	switch {
	case e.cancel != nil: // it runs
	case c == nil && s.o.Now().Sub(e.tried) < firstInterval:
		s.mu.Unlock()
		return nil, err
	default:
		c = s.requestLocked(e)
	}
	s.mu.Unlock()
	ctx, done := context.WithTimeout(ctx, firstInterval)
	defer done()
	return c.wait(ctx)
}

// Refresh discovers now: what ClickHouse has when it is called is known when
// it returns nil.
func (s *Store) Refresh(ctx context.Context, id tenant.ID) error {
	s.mu.Lock()
	m := s.tenants[id]
	if m == nil {
		s.mu.Unlock()
		return errNotServed
	}
	c := s.requestLocked(m.entry)
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
func (s *Store) run(ctx context.Context, e *entry, c *call, previous *Catalogue, members []tenant.ID) {
	start := s.o.Now()
	pool, err := s.poolFor(e.source, members)
	var catalogue *Catalogue
	if err == nil {
		catalogue, err = discover(ctx, pool, previous, s.known, s.o.Now)
	}
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
	s.settleLocked(e, c, members, catalogue, err)
}

// poolFor is the pool of a member that still has the source: one that was given
// another by now must not show the others its tables.
func (s *Store) poolFor(source string, members []tenant.ID) (*clickhouse.Pool, error) {
	err := errNotServed
	for _, id := range members {
		pool, none := s.o.Pools.Get(id)
		switch {
		case none != nil:
			err = none
		case pool.Source() == source:
			return pool, nil
		}
	}
	return nil, err
}

// settleLocked publishes the outcome, schedules the next discovery, and asks for
// the one that was wanted meanwhile.
func (s *Store) settleLocked(e *entry, c *call, members []tenant.ID, catalogue *Catalogue, err error) {
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
			s.o.Logger.Info("schema discovered", "tenant", members[0], "tenants", len(members), "tables", len(catalogue.sorted))
		}
	case first:
		wait := s.backoff(e.failures)
		e.failures++
		e.next = now.Add(wait)
		s.o.Logger.Warn("schema discovery failed", "tenant", members[0], "tenants", len(members), "error", err, "retry_in", wait.String())
	default:
		e.failures++
		e.next = now.Add(e.interval)
		s.o.Logger.Warn("schema refresh failed; the tables known before are kept", "tenant", members[0], "tenants", len(members), "error", err)
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
