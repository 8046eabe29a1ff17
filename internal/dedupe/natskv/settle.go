package natskv

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// Commit implements dedupe.Reserver.
func (s *Store) Commit(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, entries []dedupe.Entry, retention time.Duration) (int, error) {
	var lost atomic.Int64
	token := newToken(o)
	err := s.bucket.Use(ctx, func(ctx context.Context) error {
		err := dedupe.Each(len(entries), func(i int) error {
			ok, err := s.commit(ctx, o, token, keyOf(scope, entries[i].ID), entries[i].Value, retention)
			if err == nil && !ok {
				lost.Add(1)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("commit ids: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return int(lost.Load()), nil
}

// commit writes an id at the revision of its reservation. ok is false for one that
// another has.
func (s *Store) commit(ctx context.Context, o dedupe.Owner, token []byte, key string, value []byte, retention time.Duration) (ok bool, err error) {
	revision, known := s.held.Take(o, key, time.Time{}) // a slow owner may still settle
	for pause := attemptPause; ; pause *= 2 {
		if !known {
			e, err := s.read(ctx, key)
			switch {
			case err != nil:
				return false, err
			case !e.absent && e.kind == kindCommitted && bytes.Equal(e.token, token):
				return true, nil // an attempt whose answer was lost
			case !e.absent && !e.reservedBy(o):
				return false, nil
			}
			revision = e.revision
		}
		if _, err = s.write(ctx, "commit", key, message(kindCommitted, token, value), revision, retention); err == nil {
			return true, nil
		}
		if known = false; !again(ctx, pause) {
			return false, err
		}
	}
}

// Release implements dedupe.Reserver.
func (s *Store) Release(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, ids []string) error {
	return s.bucket.Use(ctx, func(ctx context.Context) error {
		err := dedupe.Each(len(ids), func(i int) error { return s.release(ctx, o, keyOf(scope, ids[i])) })
		if err != nil {
			return fmt.Errorf("release ids: %w", err)
		}
		return nil
	})
}

func (s *Store) release(ctx context.Context, o dedupe.Owner, key string) error {
	revision, known := s.held.Take(o, key, time.Time{}) // a slow owner may still settle
	for pause := attemptPause; ; pause *= 2 {
		if !known {
			e, err := s.read(ctx, key)
			if err != nil {
				return err
			}
			if !e.reservedBy(o) {
				return nil
			}
			revision = e.revision
		}
		_, err := s.write(ctx, "release", key, tombstone(), revision, tombstoneLife)
		if err == nil {
			return nil
		}
		if known = false; !again(ctx, pause) {
			return err
		}
	}
}
