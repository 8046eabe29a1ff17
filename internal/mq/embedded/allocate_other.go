//go:build !linux

package embedded

import "os"

// allocate gives the file room on the volume.
func allocate(f *os.File, size int64) error {
	_, err := f.Write(make([]byte, size))
	return err
}
