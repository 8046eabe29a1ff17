package embedded

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives the file room on the volume. A file system that cannot do so
// has none kept back.
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }
