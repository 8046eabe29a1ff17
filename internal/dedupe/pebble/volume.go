package pebble

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// volume stands between one instance and the disk. Pebble gives up for good
// when a write fails, so a write that finds the disk full waits here until
// there is room. A volume that is fenced changes nothing any more: whoever
// tries stays for ever, which is how an instance that gave up is kept from the
// files that the next one opens.
type volume struct {
	vfs.FS
	// retry is how often a full disk is tried again.
	retry time.Duration
	// stuck counts operations that wait for room.
	stuck atomic.Int32

	mu     sync.RWMutex // held for reading while something is changed
	fenced bool
}

// full reports whether something waits for room.
func (v *volume) full() bool { return v.stuck.Load() > 0 }

// fence returns when the volume is quiet, for ever.
func (v *volume) fence() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fenced = true
}

// change runs what alters the disk, once.
func (v *volume) change(op func() error) error {
	v.mu.RLock()
	if v.fenced {
		v.mu.RUnlock()
		select {}
	}
	defer v.mu.RUnlock()
	return op()
}

// untilRoom runs what alters the disk until it does not fail for lack of room.
func (v *volume) untilRoom(op func() error) error {
	err := v.change(op)
	if !isFull(err) {
		return err
	}
	v.stuck.Add(1)
	defer v.stuck.Add(-1)
	for isFull(err) {
		time.Sleep(v.retry)
		err = v.change(op)
	}
	return err
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func (v *volume) open(op func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := v.untilRoom(func() (err error) {
		f, err = op()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &file{File: f, volume: v}, nil
}

// Create implements vfs.FS.
func (v *volume) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return v.open(func() (vfs.File, error) { return v.FS.Create(name, c) })
}

// OpenReadWrite implements vfs.FS.
func (v *volume) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return v.open(func() (vfs.File, error) { return v.FS.OpenReadWrite(name, c, opts...) })
}

// ReuseForWrite implements vfs.FS.
func (v *volume) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return v.open(func() (vfs.File, error) { return v.FS.ReuseForWrite(from, to, c) })
}

// OpenDir implements vfs.FS.
func (v *volume) OpenDir(name string) (vfs.File, error) {
	f, err := v.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, volume: v}, nil
}

// Link implements vfs.FS.
func (v *volume) Link(from, to string) error {
	return v.untilRoom(func() error { return v.FS.Link(from, to) })
}

// Rename implements vfs.FS.
func (v *volume) Rename(from, to string) error {
	return v.untilRoom(func() error { return v.FS.Rename(from, to) })
}

// MkdirAll implements vfs.FS.
func (v *volume) MkdirAll(dir string, perm os.FileMode) error {
	return v.untilRoom(func() error { return v.FS.MkdirAll(dir, perm) })
}

// Remove implements vfs.FS.
func (v *volume) Remove(name string) error {
	return v.change(func() error { return v.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (v *volume) RemoveAll(name string) error {
	return v.change(func() error { return v.FS.RemoveAll(name) })
}

// Lock locks nothing: the store holds the folder's lock over all instances.
func (v *volume) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements vfs.FS.
func (v *volume) Unwrap() vfs.FS { return v.FS }

// file is a file of a volume.
type file struct {
	vfs.File
	volume *volume
}

// Write implements io.Writer. What was written before the disk was full is not
// written twice.
func (f *file) Write(p []byte) (n int, err error) {
	err = f.volume.untilRoom(func() error {
		done, err := f.File.Write(p[n:])
		n += done
		return err
	})
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.volume.untilRoom(func() error {
		n, err = f.File.WriteAt(p, at)
		return err
	})
	return n, err
}

// Preallocate only asks for room ahead of time: without it writes go on.
func (f *file) Preallocate(at, length int64) error {
	err := f.volume.change(func() error { return f.File.Preallocate(at, length) })
	if isFull(err) {
		return nil
	}
	return err
}

// Sync implements vfs.File. It is never tried again: after a sync that failed
// the next one succeeds whether or not the data are on the disk.
func (f *file) Sync() error { return f.volume.change(f.File.Sync) }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.volume.change(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.volume.change(func() error {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
