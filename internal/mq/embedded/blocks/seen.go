package blocks

import (
	"bytes"
	"os"
	"sync"
	"time"
)

// Seen remembers which files are whole, by size and time of change, so that they
// need not be read again while this process lives.
type Seen struct {
	mu    sync.Mutex
	files map[string]sight
	// tails are files that grow, as they were last; reads is where each stream
	// was read last.
	tails map[string]sight
	reads map[string]trusted

	buffers sync.Pool // of *bytes.Buffer; files are read into them
}

// buffer lends what a file is read into. nil makes one.
func (s *Seen) buffer() *bytes.Buffer {
	if s != nil {
		if kept, ok := s.buffers.Get().(*bytes.Buffer); ok {
			return kept
		}
	}
	return &bytes.Buffer{}
}

// release takes back what buffer lent.
func (s *Seen) release(b *bytes.Buffer) {
	if s != nil {
		s.buffers.Put(b)
	}
}

type sight struct {
	size    int64
	changed time.Time
	block   *block
}

// NewSeen remembers nothing.
func NewSeen() *Seen {
	return &Seen{files: map[string]sight{}, tails: map[string]sight{}, reads: map[string]trusted{}}
}

// unchanged returns what the file holds if it is as it was when it was whole.
func (s *Seen) unchanged(path string) *block {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	known, ok := s.files[path]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	if info, err := os.Stat(path); err != nil || info.Size() != known.size || !info.ModTime().Equal(known.changed) {
		return nil
	}
	return known.block
}

// look notes how the file is before it is read; the result is called when it is
// found to be whole.
func (s *Seen) look(path string) (whole func(*block)) {
	info, err := os.Stat(path)
	if s == nil || err != nil {
		return func(*block) {}
	}
	return func(b *block) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.files[path] = sight{size: info.Size(), changed: info.ModTime(), block: b}
	}
}
