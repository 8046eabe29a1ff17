package pebble

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Reserve implements dedupe.Reserver.
func (s *Store) Reserve(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, ids []string) ([]dedupe.Reservation, error) {
	reservations := make([]dedupe.Reservation, len(ids))
	keys := keysOf(scope, ids)
	err := s.do(ctx, func(in *instance) error { return s.reserve(in, scope.Tenant, o, keys, reservations) })
	if err != nil {
		return nil, err // reservations may still be written to
	}
	return reservations, nil
}

// retryAfter is the time in which a publish and its commit are usually done.
// Asking costs a look into memory.
const retryAfter = 20 * time.Millisecond

func (s *Store) reserve(in *instance, t tenant.ID, o dedupe.Owner, keys []string, reservations []dedupe.Reservation) error {
	got, h := in.busy.reserve(keys)
	defer in.busy.free(got, h)
	mine := make(map[string]bool, len(got))
	for _, key := range got {
		mine[key] = true
	}
	now := s.o.Now()
	reservation := entry{kind: kindReserved, until: until(now, s.o.Lease), owner: o}.append(nil)
	batch := in.db.NewBatch()
	defer func() { _ = batch.Close() }()
	inFlight := dedupe.Reservation{State: dedupe.InFlight, RetryAfter: retryAfter}
	lapsed, added := 0, int64(0)
	for i, key := range keys {
		if !mine[key] {
			reservations[i] = inFlight
			continue
		}
		known, found, err := in.get(key)
		switch {
		case err != nil:
			return err
		case found && !known.over(now) && known.kind == kindCommitted:
			reservations[i] = dedupe.Reservation{State: dedupe.Duplicate, Value: known.value}
			continue
		case found && !known.over(now):
			reservations[i] = inFlight
			continue
		case found && known.kind == kindReserved:
			lapsed++
		case !found && added == 0 && !s.count.admits(t):
			return dedupe.ErrFull
		}
		if !found {
			added += sizeOf(key, nil)
		}
		if err := batch.Set([]byte(key), reservation, nil); err != nil {
			return err
		}
	}
	s.metrics.lapsed.Add(float64(lapsed))
	if err := in.apply(batch); err != nil {
		return err
	}
	s.count.add(t, added)
	return nil
}

// sizeOf is what an id takes, about.
func sizeOf[K string | []byte](key K, value []byte) int64 {
	return int64(len(key)+len(value)) + idBytes
}

// Commit implements dedupe.Reserver.
func (s *Store) Commit(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, entries []dedupe.Entry, retention time.Duration) (int, error) {
	keys := make([]string, len(entries))
	prefix := dedupe.Prefix(scope)
	for i, e := range entries {
		keys[i] = dedupe.Key(prefix, e.ID)
	}
	lost := 0
	err := s.do(ctx, func(in *instance) error {
		n, err := s.commit(in, scope.Tenant, o, keys, entries, retention)
		lost = n
		return err
	})
	if err != nil {
		return 0, err
	}
	return lost, nil
}

func (s *Store) commit(in *instance, t tenant.ID, o dedupe.Owner, keys []string, entries []dedupe.Entry, retention time.Duration) (lost int, err error) {
	got, h := in.busy.settle(keys)
	defer in.busy.free(got, h)
	now := s.o.Now()
	batch := in.db.NewBatch()
	defer func() { _ = batch.Close() }()
	added := int64(0)
	for i, key := range keys {
		known, found, err := in.get(key)
		if err != nil {
			return 0, err
		}
		if found && !known.over(now) && (known.kind == kindCommitted || known.owner != o) {
			lost++
			continue
		}
		if added += sizeOf(key, entries[i].Value); found {
			added -= sizeOf(key, known.value)
		}
		e := entry{kind: kindCommitted, until: until(now, retention), made: now.UnixMilli(), value: entries[i].Value}
		if err := batch.Set([]byte(key), e.append(nil), nil); err != nil {
			return 0, err
		}
	}
	if err := in.apply(batch); err != nil {
		return lost, err
	}
	s.count.add(t, added)
	return lost, nil
}

// Release implements dedupe.Reserver.
func (s *Store) Release(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, ids []string) error {
	keys := keysOf(scope, ids)
	return s.do(ctx, func(in *instance) error {
		got, h := in.busy.settle(keys)
		defer in.busy.free(got, h)
		batch := in.db.NewBatch()
		defer func() { _ = batch.Close() }()
		freed := int64(0)
		for _, key := range got {
			known, found, err := in.get(key)
			if err != nil {
				return err
			}
			if found && known.kind == kindReserved && known.owner == o {
				if err := batch.Delete([]byte(key), nil); err != nil {
					return err
				}
				freed += sizeOf(key, nil)
			}
		}
		if err := in.apply(batch); err != nil {
			return err
		}
		s.count.add(scope.Tenant, -freed)
		return nil
	})
}

func keysOf(scope dedupe.Scope, ids []string) []string {
	keys := make([]string, len(ids))
	prefix := dedupe.Prefix(scope)
	for i, id := range ids {
		keys[i] = dedupe.Key(prefix, id)
	}
	return keys
}

// get reads an entry; its value is a copy.
func (in *instance) get(key string) (e entry, found bool, err error) {
	b, closer, err := in.db.Get([]byte(key))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return entry{}, false, nil
	case err != nil:
		return entry{}, false, err
	}
	e, err = parseEntry(b)
	e.value = bytes.Clone(e.value)
	return e, err == nil, errors.Join(err, closer.Close())
}

// apply makes a window durable. Windows that come meanwhile share the write.
func (in *instance) apply(b *pebble.Batch) error {
	if b.Empty() {
		return nil
	}
	return b.Commit(pebble.Sync)
}
