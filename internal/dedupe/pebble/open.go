package pebble

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// attempt returns the opening under way, beginning one when it is time.
func (s *Store) attempt() (<-chan struct{}, error) {
	if s.closed {
		return nil, errClosed
	}
	former := s.instance
	s.instance = nil
	if former != nil {
		s.givenUp++
		s.fault, s.tried = nil, time.Time{}
	}
	switch {
	case s.opening != nil:
		return s.opening, nil
	case s.givenUp >= maxGivenUp:
		return nil, fmt.Errorf("%w: it gave up %d times: restart the server once the disk is well", dedupe.ErrUnavailable, s.givenUp)
	case s.fault != nil && time.Since(s.tried) < s.o.OpenInterval:
		return nil, s.fault
	}
	s.opening = make(chan struct{})
	go s.open(former, s.lock)
	return s.opening, nil
}

// open ends one attempt.
func (s *Store) open(former *instance, lock io.Closer) {
	if former != nil {
		former.volume.fence()
	}
	in := newInstance(s.o)
	lock, err := s.lockDir(lock)
	if err == nil {
		err = in.openGuarded(s.o.Dir)
	}
	if err == nil {
		err = in.guarded(func() error { return s.count.load(in) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lock, s.tried, s.fault = lock, time.Now(), nil
	if in.isBroken() {
		s.givenUp++
	}
	switch {
	case err != nil:
		s.fault = fmt.Errorf("%w: open %s: %w", dedupe.ErrUnavailable, s.o.Dir, brief(err))
		s.o.Logger.Error("cannot open the store of seen ids", "dir", s.o.Dir, "error", err, "retry_after", s.o.OpenInterval)
	default:
		s.instance = in
	}
	close(s.opening)
	s.opening = nil
}

func (s *Store) lockDir(lock io.Closer) (io.Closer, error) {
	if lock != nil {
		return lock, nil
	}
	if err := s.o.fs.MkdirAll(s.o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make its folder: %w", err)
	}
	lock, err := s.o.fs.Lock(filepath.Join(s.o.Dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("lock its folder: %w", err)
	}
	return lock, nil
}

// openGuarded is open, with an end when Pebble gives up on the way.
func (in *instance) openGuarded(dir string) error {
	done := make(chan error, 1)
	go func() { done <- in.guarded(func() error { return in.open(dir) }) }()
	select {
	case err := <-done:
		return err
	case <-in.broken:
		in.volume.fence()
		return in.cause
	}
}
