package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/stream"
)

const (
	// idKeyFile holds the key of stream ids where the configuration has none.
	idKeyFile  = "stream.key"
	idKeyBytes = 32
)

// seals make what clients bring back: event ids of streams, and cursors of queries.
type seals struct {
	ids     *stream.IDs
	cursors *query.Cursors
}

// newSeals makes them under keys of the configured one, or of one that is made once
// and kept in the data directory.
func newSeals(c *config.Config, logger *slog.Logger) (seals, error) {
	key, err := idKey(c, logger)
	if err != nil {
		return seals{}, err
	}
	ids, err := stream.NewIDs(key)
	if err != nil {
		return seals{}, err
	}
	cursors, err := query.NewCursors(key)
	return seals{ids: ids, cursors: cursors}, err
}

// idKey is nil where one is to be made up.
func idKey(c *config.Config, logger *slog.Logger) ([]byte, error) {
	if key := c.Stream.IDKey.Reveal(); key != "" {
		return []byte(key), nil
	}
	if !c.HasRole(config.RoleAPI) {
		return nil, nil
	}
	key, err := keptKey(filepath.Join(c.DataDir, idKeyFile))
	if err != nil {
		return nil, err
	}
	if key == nil {
		logger.Warn("the key of stream ids and cursors cannot be kept: clients that come back after the next restart are told of a gap, and their cursors are invalid",
			"file", filepath.Join(c.DataDir, idKeyFile))
	}
	return key, nil
}

// keptKey reads the key, or makes it at the first start. It is nil where it cannot
// be written: a volume without room keeps nobody from draining the queue. One that
// was damaged is the operator's to remove, as all ids are of no use without it.
func keptKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path) //nolint:gosec // the data directory is the operator's
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return madeKey(path), nil
	case err != nil:
		return nil, fmt.Errorf("read the key of stream ids: %w", err)
	case len(key) != idKeyBytes:
		return nil, fmt.Errorf("the key of stream ids in %q has %d bytes instead of %d: remove the file, and clients that come back are told of a gap", path, len(key), idKeyBytes)
	}
	return key, nil
}

// madeKey writes a new key, whole or not at all; nil when that fails.
func madeKey(path string) []byte {
	key := make([]byte, idKeyBytes)
	_, _ = rand.Read(key) // never fails: it ends the process instead
	next := path + ".new"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) //nolint:gosec // the data directory is the operator's
	if err != nil {
		return nil
	}
	_, err = file.Write(key)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
		return nil
	}
	return key
}
