package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile keeps a second process out of a data directory: two of them would
// write one queue.
const lockFile = ".lock"

// lockDataDir takes the directory until the file is closed or the process
// ends, however it ends.
func lockDataDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data_dir %q: %w", dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("lock data_dir %q: %w", dir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data_dir %q is in use by another process: give each its own data_dir", dir)
		}
		return nil, fmt.Errorf("lock data_dir %q: %w", dir, err)
	}
	return file, nil
}
