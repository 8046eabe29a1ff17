package natskv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/lifetime"
)

const (
	// attemptPause is the first wait before a write is repeated; it doubles, and
	// maxPause is from when on it is not.
	attemptPause = 20 * time.Millisecond
	maxPause     = 16 * attemptPause
	// askAgain is when it is worth asking for another's id again.
	askAgain = 100 * time.Millisecond
	// giveUpTimeout bounds the release of what a failed call had reserved.
	giveUpTimeout = time.Second
)

// Reserve implements dedupe.Reserver.
func (s *Store) Reserve(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, ids []string) ([]dedupe.Reservation, error) {
	token := newToken(o)
	reservations := make([]dedupe.Reservation, len(ids))
	for i := range reservations {
		reservations[i].State = dedupe.InFlight // until it is known to be otherwise
	}
	err := s.bucket.Use(ctx, func(ctx context.Context) error {
		err := dedupe.Each(len(ids), func(i int) error {
			r, err := s.reserve(ctx, o, token, keyOf(scope, ids[i]))
			if err == nil {
				reservations[i] = r
			}
			return err
		})
		if err != nil {
			s.giveUp(ctx, scope, o, ids, reservations)
			return fmt.Errorf("reserve ids: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reservations, nil
}

// giveUp releases what a call that failed had reserved, so that the next attempt
// of its caller need not wait for it to lapse. It may fail itself.
func (s *Store) giveUp(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, ids []string, reservations []dedupe.Reservation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpTimeout)
	defer cancel()
	_ = dedupe.Each(len(ids), func(i int) error {
		if reservations[i].State != dedupe.New {
			return nil
		}
		return s.release(ctx, o, keyOf(scope, ids[i]))
	})
}

func (s *Store) reserve(ctx context.Context, o dedupe.Owner, token []byte, key string) (dedupe.Reservation, error) {
	if until, ok := s.waited.Get(key); ok && time.Now().Before(until) {
		e, err := s.read(ctx, key)
		if err != nil {
			return dedupe.Reservation{}, err
		}
		if !e.absent {
			return s.taken(key, e), nil
		}
	}
	revision, end := uint64(0), time.Now().Add(s.o.Lease)
	var failure error
	for pause := attemptPause; ; pause *= 2 {
		made, err := s.write(ctx, "reserve", key, message(kindReserved, token, nil), revision, s.o.Lease)
		if err == nil {
			s.held.Add(o, key, end, made)
			return dedupe.Reservation{State: dedupe.New}, nil
		}
		if failure = err; errors.Is(err, errRevision) {
			e, err := s.read(ctx, key)
			switch {
			case err != nil:
				return dedupe.Reservation{}, err
			case e.absent && e.revision != revision && pause < maxPause:
				revision = e.revision // given up, or lapsed, a moment ago
			case e.absent:
				return dedupe.Reservation{State: dedupe.InFlight, RetryAfter: attemptPause}, nil
			case e.kind == kindReserved && bytes.Equal(e.token, token):
				s.held.Add(o, key, end, e.revision)
				return dedupe.Reservation{State: dedupe.New}, nil
			default:
				return s.taken(key, e), nil
			}
			continue
		}
		if !again(ctx, pause) {
			return dedupe.Reservation{}, failure
		}
	}
}

// taken is the answer for an id that another has.
func (s *Store) taken(key string, e entry) dedupe.Reservation {
	if e.kind == kindCommitted {
		if len(e.value) == 0 {
			return dedupe.Reservation{State: dedupe.Duplicate}
		}
		return dedupe.Reservation{State: dedupe.Duplicate, Value: e.value}
	}
	s.waited.Put(key, time.Now().Add(s.o.Lease))
	return dedupe.Reservation{State: dedupe.InFlight, RetryAfter: askAgain}
}

// again waits before a request is repeated; false once there were enough.
func again(ctx context.Context, pause time.Duration) bool {
	return pause < maxPause && lifetime.Pause(ctx, pause)
}
