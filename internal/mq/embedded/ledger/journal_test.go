package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJournalCutAnywhere: what is whole before the cut is read, and what is
// written after it follows that.
func TestJournalCutAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batches")
	var all [][]byte
	live := func() [][]byte { return all }
	j, records, damaged, err := OpenJournal(path)
	require.NoError(t, err)
	require.Empty(t, records)
	require.Zero(t, damaged)
	for _, r := range []string{"one", "two", strings.Repeat("three", 9)} {
		all = append(all, []byte(r))
		require.NoError(t, j.Append([]byte(r), live))
	}
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for cut := range whole {
		for name, data := range map[string][]byte{
			"torn": whole[:cut], "flipped": append(append(append([]byte(nil), whole[:cut]...), whole[cut]^4), whole[cut+1:]...),
		} {
			require.NoError(t, os.WriteFile(path, data, 0o600))
			j, records, damaged, err := OpenJournal(path)
			require.NoError(t, err)
			require.Less(t, len(records), 3, name)
			require.Subset(t, all, records, name)
			if name == "torn" {
				require.Equal(t, all[:len(records)], append([][]byte{}, records...))
				require.Zero(t, damaged, cut)
			} else if len(records) < 2 || cut < len(whole)-45-8 {
				require.Len(t, records, 2, "what is behind the damage is whole")
				require.Positive(t, damaged, cut)
			}
			after := append(append([][]byte{}, records...), []byte("after"))
			require.NoError(t, j.Append([]byte("after"), func() [][]byte { return after }))
			require.NoError(t, j.Sync())
			require.NoError(t, j.Close())
			_, records, _, err = OpenJournal(path)
			require.NoError(t, err)
			require.Equal(t, after, records, name)
		}
	}
}

// TestJournalIsWrittenAnew: it does not grow with what no longer counts, and
// tells of a disk that takes nothing.
func TestJournalIsWrittenAnew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "batches")
	j, _, _, err := OpenJournal(path)
	require.NoError(t, err)
	record := make([]byte, 100<<10)
	for range 50 {
		require.NoError(t, j.Append(record, func() [][]byte { return [][]byte{record} }))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(compactAt)+2*int64(len(record)))
	require.NoError(t, j.Close())
	require.NoError(t, os.RemoveAll(dir))
	require.Error(t, j.Append([]byte("x"), func() [][]byte { return nil }))
	require.NoError(t, os.MkdirAll(path, 0o700))
	_, _, _, err = OpenJournal(path)
	require.Error(t, err)
}
