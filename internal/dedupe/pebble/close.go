package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// closeIdle closes a store that nobody wants and nobody uses.
func (s *Store) closeIdle() error {
	s.mu.Lock()
	in := s.instance
	if s.wanted || s.opening != nil || in == nil || in.active > 0 || in.volume.full() || time.Since(s.used) < s.o.IdleAfter {
		s.mu.Unlock()
		return nil
	}
	lock := s.takeDown()
	s.opening = make(chan struct{}) // calls wait for the end, and open it again
	s.mu.Unlock()
	err := s.shut(in, lock)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.opening)
	s.opening = nil
	return err
}

// takeDown leaves the store without an instance and its lock. The mutex is
// held.
func (s *Store) takeDown() io.Closer {
	lock := s.lock
	s.instance, s.lock = nil, nil
	return lock
}

// logPadding is more than two blocks of Pebble's log, in bytes.
const logPadding = 96 << 10

// shut keeps what is counted, and closes the files of an instance that nobody uses.
func (s *Store) shut(in *instance, lock io.Closer) error {
	if in != nil && !in.isBroken() {
		// What is not kept is counted again by the next sweep. Damage in the last block
		// of the log passes for a write that was torn, so nothing of worth is left there.
		_ = in.guarded(func() error {
			if err := s.count.keep(in); err != nil {
				return err
			}
			return in.db.LogData(make([]byte, logPadding), pebble.Sync)
		})
	}
	return shut(in, lock)
}

// shut closes the files of an instance that nobody uses.
func shut(in *instance, lock io.Closer) error {
	var err error
	if in != nil && !in.isBroken() {
		err = in.db.Close()
	}
	if lock != nil {
		err = errors.Join(err, lock.Close())
	}
	if err != nil {
		return fmt.Errorf("close the store of seen ids: %w", err)
	}
	return nil
}

// Close implements dedupe.Store. What is not done when ctx ends is left as a
// crash would leave it.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !s.quiet() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("close the store of seen ids while it is used: %w", ctx.Err())
		}
	}
	s.mu.Lock()
	in := s.instance
	lock := s.takeDown()
	s.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- s.shut(in, lock) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("close the store of seen ids: %w", ctx.Err())
	}
}

// quiet reports whether nothing is under way. Calls of an instance that gave up
// never end.
func (s *Store) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.instance
	return s.opening == nil && (in == nil || in.active == 0 || in.isBroken())
}
