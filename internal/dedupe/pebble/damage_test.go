package pebble

import (
	"bytes"
	"errors"
	"flag"
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

var damageSeed = flag.Uint64("damage.seed", 1, "the seed of TestDamagedFilesForgetNoID; 0 takes one from the clock, to search on")

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
	seed := *damageSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for n := range uint64(12) {
		t.Run(fmt.Sprint(seed+n), func(t *testing.T) {
			t.Parallel()
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

// TestADamagedListOfFilesIsSaid flips each byte of it in turn: the store knows what
// it knew, or says that it cannot tell. A store that is merely cut short opens.
func TestADamagedListOfFilesIsSaid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pebble")
	s := start(t, Options{Dir: dir})
	fillStore(t, s, 5)
	require.NoError(t, s.instance.db.Flush())
	stop(t, s)
	lists, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	require.NoError(t, err)
	list := lists[len(lists)-1]
	data, err := os.ReadFile(list)
	require.NoError(t, err)
	check := func(data []byte) error {
		require.NoError(t, os.WriteFile(list, data, 0o600))
		return checkManifest(defaultFS(), dir)
	}
	require.NoError(t, check(data))
	require.EqualValues(t, len(data), wholeRecords(data))
	last := 0 // where the last record begins
	for cut := range data {
		if wholeRecords(data[:cut]) < int64(cut) {
			continue
		}
		last = cut
	}
	require.Positive(t, last)
	for at := range data {
		damaged := bytes.Clone(data)
		damaged[at] ^= 0x5a
		if at >= last+4 && at < last+6 {
			continue // a length that is longer than what is there looks like a cut
		}
		require.ErrorIs(t, check(damaged), errManifest, "byte %d of %d", at, len(data))
	}
	for cut := last; cut < len(data); cut++ {
		require.NoError(t, check(data[:cut]), "cut at %d of %d", cut, len(data))
		require.NoError(t, check(append(bytes.Clone(data[:cut]), make([]byte, len(data)-cut)...)), "zeros from %d of %d", cut, len(data))
	}
	require.ErrorIs(t, check(nil), errManifest)

	markers, err := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
	require.NoError(t, err)
	for _, marker := range markers {
		require.NoError(t, os.Remove(marker))
	}
	require.ErrorIs(t, check(data), errManifest, "tables that nothing names")
}
