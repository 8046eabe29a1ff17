package blocks

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// Scrub looks at the files of a stream that the server has open, as far as they
// are not as they were when they were found whole, and reports whether one is
// damaged. Nothing is changed.
func (s *Stream) Scrub() (hurt bool, err error) { return s.hurt(s.Seen.rewritten) }

// Hurt is a Scrub before the server reads whatever it likes of the stream: it looks
// at the newest file, too, unless that is as it was.
func (s *Stream) Hurt() (hurt bool, err error) {
	return s.hurt(func(path string) bool { return s.Seen.unchanged(path) == nil })
}

// hurt looks at the files that are not as they were, and at the newest if it is due.
func (s *Stream) hurt(due func(newest string) bool) (hurt bool, err error) {
	indices, err := listBlocks(s.Dir)
	if err != nil {
		return false, ignoreMissing(err)
	}
	for n, index := range indices {
		path, newest := blockPath(s.Dir, index), n == len(indices)-1
		if newest && !due(path) || !newest && s.Seen.unchanged(path) != nil {
			continue
		}
		if hurt, err := s.check(index, newest); hurt || err != nil {
			return hurt, err
		}
	}
	return false, nil
}

// HurtAt looks at the file that holds the sequence, before the server reads it:
// the server cuts a file that it finds damaged.
func (s *Stream) HurtAt(seq uint64, now time.Time) (hurt bool, err error) {
	if s.Seen.trusts(s.Name, seq, now) {
		return false, nil
	}
	indices, err := listBlocks(s.Dir)
	if err != nil {
		return false, ignoreMissing(err)
	}
	for n, index := range indices {
		newest := n == len(indices)-1
		path := blockPath(s.Dir, index)
		b := s.Seen.unchanged(path)
		if b == nil {
			if hurt, err := s.check(index, newest); hurt || err != nil {
				return hurt, err
			}
			b = s.Seen.unchanged(path)
		}
		if newest || b != nil && b.last >= seq {
			s.Seen.trust(s.Name, path, b, newest, now)
			return false, nil
		}
	}
	return false, nil
}

// check reads one file. What is torn at the end of the newest may be a write
// under way.
func (s *Stream) check(index uint32, newest bool) (hurt bool, err error) {
	path := blockPath(s.Dir, index)
	note := s.Seen.look(path)
	buffer := s.Seen.buffer()
	b, err := readBlock(path, index, s.Name, s.Subject, buffer)
	if err != nil {
		return false, ignoreMissing(err)
	}
	if b.hurt() {
		return !newest || !b.torn(), nil // it holds on to the buffer
	}
	s.Seen.release(buffer)
	note(b)
	return false, nil
}

// ignoreMissing takes files that the server has removed meanwhile for whole.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tailTrust is for how long the newest file of a stream counts as whole though it
// has changed: it is written to all the time.
const tailTrust = 100 * time.Millisecond

// trusted is the file of a stream that was read last.
type trusted struct {
	path        string
	first, last uint64
	newest      bool
	until       time.Time
}

func (s *Seen) trust(stream, path string, b *block, newest bool, now time.Time) {
	t := trusted{path: path, newest: newest, until: now.Add(tailTrust)}
	if b != nil && len(b.kept) > 0 {
		t.first, t.last = b.kept[0].Lo, b.last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads[stream] = t
}

// trusts reports whether the sequence is in the file that was found whole last.
func (s *Seen) trusts(stream string, seq uint64, now time.Time) bool {
	s.mu.Lock()
	t, ok := s.reads[stream]
	s.mu.Unlock()
	switch {
	case !ok || seq < t.first:
		return false
	case t.newest && now.Before(t.until):
		return true
	}
	return (t.newest || seq <= t.last) && s.unchanged(t.path) != nil
}

// rewritten reports whether a file that grows has changed without growing, or is
// not known.
func (s *Seen) rewritten(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.tails[path]
	s.tails[path] = sight{size: info.Size(), changed: info.ModTime()}
	return ok && was.size == info.Size() && !was.changed.Equal(info.ModTime())
}

// Forget drops what is remembered of files that are gone.
func (s *Seen) Forget() {
	s.mu.Lock()
	paths := make([]string, 0, len(s.files)+len(s.tails))
	for path := range s.files {
		paths = append(paths, path)
	}
	for path := range s.tails {
		paths = append(paths, path)
	}
	s.mu.Unlock()
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			s.mu.Lock()
			delete(s.files, path)
			delete(s.tails, path)
			s.mu.Unlock()
		}
	}
}
