package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stopper ends the process, and the engine with it in the middle of whatever it
// does. What a statement has answered for is in the data directory, as after a
// kill. An end in order is slower and no safer: the engine's own shutdown
// crashes now and then when statements run.
type stopper struct {
	once   sync.Once
	closed chan struct{}
	remove string // directory to leave nothing of; "" keeps the data
}

func newStopper(o *options) *stopper {
	s := &stopper{closed: make(chan struct{})}
	if o.remove {
		s.remove = o.path
	}
	return s
}

// done is closed when the end begins.
func (s *stopper) done() <-chan struct{} { return s.closed }

// stop exits with 0.
func (s *stopper) stop() {
	s.once.Do(func() {
		close(s.closed)
		if s.remove != "" {
			// The program that removes takes this one's place: nothing is left
			// that could write what was removed anew.
			err := syscall.Exec("/bin/rm", []string{"rm", "-rf", "--", s.remove}, os.Environ())
			_, _ = fmt.Fprintf(os.Stderr, "clickhouse-dev: remove %s: %v\n", s.remove, err)
		}
		// Not os.Exit: under the race detector that runs the engine's destructors.
		syscall.Exit(0)
	})
}

// onSignal stops at a signal.
func (s *stopper) onSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-signals
		s.stop()
	}()
}

// onEOF stops when in ends: its other end belongs to the parent.
func (s *stopper) onEOF(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	s.stop()
}
