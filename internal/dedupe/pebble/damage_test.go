package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// fillStore commits n windows of ids, and returns the first id of each.
func fillStore(t *testing.T, s *Store, n int) (ids []string) {
	t.Helper()
	for w := range n {
		owner, window, entries := dedupe.NewOwner(), []string{}, []dedupe.Entry{}
		for k := range 20 {
			id := fmt.Sprint(w, "-", k, strings.Repeat("x", 20))
			window, entries = append(window, id), append(entries, dedupe.Entry{ID: id})
		}
		_, err := s.Reserve(t.Context(), pages, owner, window)
		require.NoError(t, err)
		_, err = s.Commit(t.Context(), pages, owner, entries, 0)
		require.NoError(t, err)
		ids = append(ids, window[0])
	}
	return ids
}

// TestDamagedFilesForgetNoID flips bytes of random files: an id that was committed
// is known, or the store says that it cannot tell. It is never taken for new.
func TestDamagedFilesForgetNoID(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for n := range uint64(12) {
		t.Run(fmt.Sprint(seed+n), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed+n, 1))
			dir := filepath.Join(t.TempDir(), "pebble")
			s := start(t, Options{Dir: dir})
			ids := fillStore(t, s, 200)
			if rng.IntN(2) == 0 {
				require.NoError(t, s.instance.db.Flush())
			}
			stop(t, s)
			path := flipSome(t, rng, dir)
			s = start(t, Options{Dir: dir})
			_ = s.Want(t.Context(), true) // or each Reserve says why not
			for _, id := range ids[:len(ids)-1] {
				state, err := reserveOne(t.Context(), s, id)
				if err != nil {
					require.ErrorIs(t, err, dedupe.ErrUnavailable)
					require.NotContains(t, err.Error(), "\n", "an error is a line")
					continue
				}
				require.Equal(t, dedupe.Duplicate, state, "%s is forgotten, with %s", id, path)
			}
		})
	}
}

// flipSome flips bytes of a random file of dir.
func flipSome(t *testing.T, rng *rand.Rand, dir string) (path string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for {
		path = all[rng.IntN(len(all))]
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if len(data) == 0 {
			continue
		}
		at := rng.IntN(len(data))
		for i := at; i < min(at+8, len(data)); i++ {
			data[i] ^= 0x5a
		}
		require.NoError(t, os.WriteFile(path, data, 0o600))
		t.Logf("%s: 8 bytes at %d of %d", path, at, len(data))
		return path
	}
}

// TestDamagedBlockIsNamed: the log says which file, and other ids are answered for.
func TestDamagedBlockIsNamed(t *testing.T) {
	dir, log := filepath.Join(t.TempDir(), "pebble"), &bytes.Buffer{}
	s := start(t, Options{Dir: dir})
	ids := fillStore(t, s, 200)
	require.NoError(t, s.instance.db.Flush())
	stop(t, s)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	data, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(tables[0], data, 0o600))

	s = start(t, Options{Dir: dir})
	s.o.Logger = slog.New(slog.NewTextHandler(log, nil))
	known, refused := 0, 0
	for _, id := range ids {
		switch state, err := reserveOne(t.Context(), s, id); {
		case errors.Is(err, dedupe.ErrUnavailable):
			refused++
			require.ErrorContains(t, err, strings.TrimSuffix(filepath.Base(tables[0]), ".sst"))
		default:
			require.NoError(t, err)
			require.Equal(t, dedupe.Duplicate, state)
			known++
		}
	}
	require.Positive(t, refused)
	require.Greater(t, known, refused)
	require.Contains(t, log.String(), "damaged on disk")
	require.Contains(t, log.String(), tables[0])
}
