package app

import (
	"os"
	"path/filepath"
	"strings"
)

// foldsCase reports whether the file system of dir takes names that differ
// only by case for one, so that two tenants would share a queue. A directory
// that cannot be asked is taken for one that does not.
func foldsCase(dir string) bool {
	probe, err := os.CreateTemp(dir, ".case-probe-")
	if err != nil {
		return false
	}
	defer func() {
		_ = probe.Close()
		_ = os.Remove(probe.Name())
	}()
	upper := filepath.Join(dir, strings.ToUpper(filepath.Base(probe.Name())))
	there, err := os.Stat(upper)
	if err != nil {
		return false
	}
	own, err := probe.Stat()
	return err == nil && os.SameFile(own, there)
}
