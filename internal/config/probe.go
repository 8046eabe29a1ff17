package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// stateFolder is where the embedded queue lives, below the data folder.
const stateFolder = "nats"

// ProbeDataDir checks, before anything is dialled, that data_dir can hold state,
// and creates it when it is missing. The warnings say that there is no state
// yet, which after a restart means that the volume does not persist.
func (c *Config) ProbeDataDir() (warnings []string, err error) {
	if c.DataDir == "" {
		return nil, errors.New("data_dir is empty: set WH_DATA_DIR to a folder on a volume that persists")
	}
	if err := c.ensureDataDir(); err != nil {
		return nil, err
	}
	if err := probeWrite(c.DataDir); errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		warnings = append(warnings, fmt.Sprintf("data_dir %q has no room left: nothing is taken in until there is; "+
			"what waits in the queue is written to ClickHouse: free some of the volume or make it larger", c.DataDir))
	} else if err != nil {
		return nil, fmt.Errorf("data_dir %q is not writable by this process (UID %d): %w; "+
			"the container runs as UID 65532, so a bind mount needs: chown -R 65532 <the folder on the host>",
			c.DataDir, os.Getuid(), err)
	}
	if c.MQ.Backend == "nats" {
		return nil, nil // the queue is elsewhere
	}
	state := filepath.Join(c.DataDir, stateFolder)
	entries, err := os.ReadDir(state)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return append(warnings, fmt.Sprintf("%q holds no state: fine on a first start; after a restart it means that data_dir is not on a volume that persists", state)), nil
	case err != nil:
		return nil, fmt.Errorf("data_dir: the queue's folder cannot be read: %w", err)
	}
	return warnings, nil
}

// ensureDataDir tells a folder, or the lack of one, from what cannot be one.
func (c *Config) ensureDataDir() error {
	switch info, err := os.Stat(c.DataDir); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("data_dir %q is not a directory", c.DataDir)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("data_dir: %w", err)
	}
	if target, err := os.Readlink(c.DataDir); err == nil {
		return fmt.Errorf("data_dir %q is a symbolic link to %q, which does not exist: is the volume mounted?", c.DataDir, target)
	}
	if err := os.MkdirAll(c.DataDir, 0o750); err != nil {
		return fmt.Errorf("data_dir %q cannot be created: %w; the container runs as UID 65532, which must be able to write there", c.DataDir, err)
	}
	return nil
}

// probeWrite writes and removes a file, because permission bits do not tell of
// read-only mounts.
func probeWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString("probe")
	return errors.Join(err, f.Close())
}
