package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// stopBudget is how long the engine may take to end before the process does
// without it.
const stopBudget = 2 * time.Second

// stopper ends the engine: the engine's query reads a pipe, and closing it is
// what makes it finish and shut down in order.
type stopper struct {
	read, write *os.File
	once        sync.Once
	closed      chan struct{}
	cleanup     func() // run before the process is cut off
}

func newStopper(cleanup func()) (*stopper, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the stop pipe: %w", err)
	}
	return &stopper{read: read, write: write, closed: make(chan struct{}), cleanup: cleanup}, nil
}

// path is where the engine opens the pipe.
func (s *stopper) path() string { return fmt.Sprintf("/dev/fd/%d", s.read.Fd()) }

func (s *stopper) done() <-chan struct{} { return s.closed }

func (s *stopper) asked() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// stop asks the engine to end, and ends the process when it does not: an engine
// that is still starting, or held by a statement, is safe to cut off.
func (s *stopper) stop() {
	s.once.Do(func() {
		close(s.closed)
		_ = s.write.Close()
		time.AfterFunc(stopBudget, func() {
			s.cleanup()
			os.Exit(0)
		})
	})
}

// onSignal stops at the first signal, and exits at the second.
func (s *stopper) onSignal() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-signals
		s.stop()
		<-signals
		os.Exit(1)
	}()
}

// onEOF stops when in ends: its other end belongs to the parent.
func (s *stopper) onEOF(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	s.stop()
}
