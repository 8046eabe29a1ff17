package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ballast is a file that takes some room on the volume, for the moment when
// nothing else is left: it is then given up, so that what the worker has written
// can be noted and removed.
type ballast struct{ path string }

const ballastFile = "ballast"

func newBallast(dir string) ballast { return ballast{filepath.Join(dir, ballastFile)} }

// held is what the file takes.
func (b ballast) held() uint64 {
	info, err := os.Stat(b.path)
	if err != nil {
		return 0
	}
	return uint64(info.Size())
}

// take makes the file, if it is not there.
func (b ballast) take(size uint64) error {
	if b.held() > 0 {
		return nil
	}
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(allocate(f, int64(size)), f.Close()); err != nil {
		_ = os.Remove(b.path)
	}
	return err
}

// drop removes the file and reports whether it was there.
func (b ballast) drop() bool {
	err := os.Remove(b.path)
	return !errors.Is(err, fs.ErrNotExist)
}
