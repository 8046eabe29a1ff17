package dev

import (
	"fmt"
	"io"
	"sync"
)

// progress tells what goes on. On a terminal an update replaces the one
// before it; elsewhere only lines are printed.
type progress struct {
	out         io.Writer
	interactive bool

	mu   sync.Mutex
	open bool
}

func newProgress(out io.Writer, interactive bool) *progress {
	return &progress{out: out, interactive: interactive}
}

// line prints a line of its own.
func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked()
	p.print(format+"\n", args...)
}

// update replaces the current line.
func (p *progress) update(format string, args ...any) {
	if !p.interactive {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = true
	p.print("\r\x1b[K"+format, args...)
}

// print drops errors: who does not listen misses it.
func (p *progress) print(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format, args...) }

func (p *progress) endLocked() {
	if p.open {
		p.print("\n")
		p.open = false
	}
}
