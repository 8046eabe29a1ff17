package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// synced is a file whose writes outlive the process at once, and the machine once
// they are synced.
type synced struct {
	path  string
	file  *os.File // nil before the first write
	dirty bool
}

// Synced reports whether what was written outlives the machine.
func (s *synced) Synced() bool { return s.file == nil || !s.dirty }

// Sync makes it so.
func (s *synced) Sync() error {
	if s.Synced() {
		return nil
	}
	s.dirty = false
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.path, err)
	}
	return nil
}

// Close syncs and closes the file.
func (s *synced) Close() error {
	err := s.Sync()
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
		s.file = nil
	}
	return err
}

// appended is a file that is only added to, until it is written anew.
type appended struct {
	synced
	size int64
	// broken is set when the end of the file is not known to be whole; the
	// next write then replaces the file.
	broken bool
}

// add writes at the end, in one write.
func (a *appended) add(data []byte) error {
	n, err := a.file.WriteAt(data, a.size)
	if err != nil {
		a.broken = true
		return fmt.Errorf("write %s: %w", a.path, err)
	}
	a.size += int64(n)
	a.dirty = true
	return nil
}

// replace writes the file anew, durably.
func (a *appended) replace(data []byte) error {
	f, err := ReplaceFile(a.path, data)
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", a.path, err)
	}
	if a.file != nil {
		_ = a.file.Close()
	}
	a.file, a.size, a.dirty, a.broken = f, int64(len(data)), false, false
	return nil
}

// RemoveTemp drops from dir what a replaced ledger left behind when cut short.
func RemoveTemp(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// ReplaceFile writes data durably beside path and moves it there, and returns the
// open file.
func ReplaceFile(path string, data []byte) (*os.File, error) {
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// SyncDir makes renames within dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
