package pebble

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// sweepStep is how many keys are looked at, and kept from commits, at once.
const sweepStep = 1024

// housekeeping is how often Run looks whether the store is still wanted.
const housekeeping = time.Minute

// Run implements dedupe.Store: it removes what is over and closes the files when
// they are not needed.
func (s *Store) Run(ctx context.Context) error {
	sweep := time.NewTicker(s.o.SweepInterval)
	defer sweep.Stop()
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.closeIdle(); err != nil {
				s.o.Logger.Error("the store of seen ids", "error", err)
			}
			s.retry(ctx)
			s.measure(ctx)
			s.forgetSome(ctx)
		case <-s.count.crowded:
			s.forgetSome(ctx)
		case <-sweep.C:
			if !s.isOpen() {
				continue
			}
			if n, err := s.Sweep(ctx); err != nil {
				s.o.Logger.Warn("sweep of seen ids was cut short; it is done again later", "removed", n, "error", err)
			}
		}
	}
}

func (s *Store) forgetSome(ctx context.Context) {
	if !s.isOpen() {
		return
	}
	if err := s.forget(ctx); err != nil {
		s.o.Logger.Warn("cannot forget old ids; it is tried again", "error", err)
	}
}

// retry opens a store that is wanted and could not be opened.
func (s *Store) retry(ctx context.Context) {
	s.mu.Lock()
	missing := s.wanted && s.instance == nil
	s.mu.Unlock()
	if !missing {
		return
	}
	if in, err := s.enter(ctx); err == nil {
		s.leave(in)
	}
}

// measure notes the size of the files, and in them what the tenants' ids take.
func (s *Store) measure(ctx context.Context) {
	if !s.isOpen() {
		return
	}
	var size uint64
	if err := s.do(ctx, func(in *instance) error {
		size = in.db.Metrics().DiskSpaceUsage()
		return s.count.keep(in)
	}); err == nil {
		s.metrics.size.Set(float64(size))
	}
}

// Sweep removes the ids and reservations that are over, and says how many. A call
// that needs one of the ids waits for one chunk of keys at most.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	start := time.Now()
	defer func() {
		s.metrics.swept.Add(float64(removed))
		s.metrics.sweep.Observe(time.Since(start).Seconds())
	}()
	found := map[tenant.ID]int64{}
	ids := &pebble.IterOptions{UpperBound: []byte{countVersion}}
	removed, err = s.remove(ctx, ids, func(e entry) bool { return e.over(s.o.Now()) }, found)
	if err == nil {
		s.count.set(found)
	}
	return removed, err
}

// remove removes the entries of a range that are gone, and says how many. found, if
// any, counts those that are kept.
func (s *Store) remove(ctx context.Context, span *pebble.IterOptions, gone func(entry) bool, found map[tenant.ID]int64) (removed int, err error) {
	for next := span.LowerBound; ctx.Err() == nil; {
		var n int
		var after []byte
		if err := s.do(ctx, func(in *instance) (err error) {
			n, after, err = s.removeFrom(in, &pebble.IterOptions{LowerBound: next, UpperBound: span.UpperBound}, gone, found)
			return err
		}); err != nil {
			return removed, err
		}
		removed += n
		if next = after; next == nil {
			return removed, nil
		}
	}
	return removed, ctx.Err()
}

// removeFrom looks at one chunk of keys and returns where the next begins, nil
// at the end.
func (s *Store) removeFrom(in *instance, span *pebble.IterOptions, gone func(entry) bool, found map[tenant.ID]int64) (removed int, next []byte, err error) {
	keys, next, err := look(in, span, gone, found)
	if err != nil || len(keys) == 0 {
		return 0, next, err
	}
	got, h := in.busy.idle(keys)
	defer in.busy.free(got, h)
	batch := in.db.NewBatch()
	defer func() { _ = batch.Close() }()
	freed := map[tenant.ID]int64{}
	for _, key := range got {
		// Again: it may have been reserved since.
		e, found, err := in.get(key)
		if err != nil || !found || !gone(e) {
			continue
		}
		if err := batch.Delete([]byte(key), nil); err != nil {
			return 0, nil, err
		}
		freed[tenantOf([]byte(key))] += sizeOf(key, e.value)
	}
	removed = int(batch.Count())
	if removed == 0 {
		return 0, next, nil
	}
	// Not synced: what comes back after a crash goes again.
	if err := batch.Commit(pebble.NoSync); err != nil {
		return 0, nil, err
	}
	for t, n := range freed {
		s.count.add(t, -n)
	}
	return removed, next, nil
}

func look(in *instance, span *pebble.IterOptions, gone func(entry) bool, found map[tenant.ID]int64) (keys []string, next []byte, err error) {
	it, err := in.db.NewIter(span)
	if err != nil {
		return nil, nil, err
	}
	seen := 0
	for ok := it.First(); ok; ok = it.Next() {
		if seen++; seen > sweepStep {
			next = append([]byte(nil), it.Key()...)
			break
		}
		e, err := parseEntry(it.Value())
		switch {
		case err == nil && gone(e):
			keys = append(keys, string(it.Key()))
		case found != nil:
			found[tenantOf(it.Key())] += sizeOf(it.Key(), e.value)
		}
	}
	return keys, next, errors.Join(it.Error(), it.Close())
}
