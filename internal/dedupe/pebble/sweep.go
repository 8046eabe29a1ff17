package pebble

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
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

// measure notes the size of the files.
func (s *Store) measure(ctx context.Context) {
	if !s.isOpen() {
		return
	}
	var size uint64
	if err := s.do(ctx, func(in *instance) error {
		size = in.db.Metrics().DiskSpaceUsage()
		return nil
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
	var next []byte
	for ctx.Err() == nil {
		var n int
		var after []byte
		if err := s.do(ctx, func(in *instance) (err error) {
			n, after, err = s.sweepFrom(in, next)
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

// sweepFrom looks at one chunk of keys and returns where the next begins, nil
// at the end.
func (s *Store) sweepFrom(in *instance, from []byte) (removed int, next []byte, err error) {
	over, next, err := s.over(in, from)
	if err != nil || len(over) == 0 {
		return 0, next, err
	}
	got, h := in.busy.idle(over)
	defer in.busy.free(got, h)
	batch := in.db.NewBatch()
	defer func() { _ = batch.Close() }()
	now := s.o.Now()
	for _, key := range got {
		// Again: it may have been reserved since.
		if e, found, err := in.get(key); err != nil || !found || !e.over(now) {
			continue
		}
		if err := batch.Delete([]byte(key), nil); err != nil {
			return 0, nil, err
		}
	}
	removed = int(batch.Count())
	if removed == 0 {
		return 0, next, nil
	}
	// Not synced: what comes back after a crash is over then too.
	return removed, next, batch.Commit(pebble.NoSync)
}

func (s *Store) over(in *instance, from []byte) (over []string, next []byte, err error) {
	it, err := in.db.NewIter(&pebble.IterOptions{LowerBound: from})
	if err != nil {
		return nil, nil, err
	}
	now, seen := s.o.Now(), 0
	for ok := it.First(); ok; ok = it.Next() {
		if seen++; seen > sweepStep {
			next = append([]byte(nil), it.Key()...)
			break
		}
		if e, err := parseEntry(it.Value()); err == nil && e.over(now) {
			over = append(over, string(it.Key()))
		}
	}
	return over, next, errors.Join(it.Error(), it.Close())
}
