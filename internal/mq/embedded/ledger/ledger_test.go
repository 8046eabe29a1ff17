package ledger

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpansAgreeWithASet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var r Ranges
		set, floor := map[uint64]bool{}, uint64(0)
		for range 60 {
			lo := 1 + rng.Uint64N(80)
			s := Range{lo, lo + rng.Uint64N(6)}
			r = r.Add(s)
			for n := s.Lo; n <= s.Hi; n++ {
				if n > floor {
					set[n] = true
				}
			}
			r, floor = r.advance(floor)
			for set[floor] || set[floor+1] {
				delete(set, floor)
				if set[floor+1] {
					floor++
				}
			}
			a := Acked{Floor: floor, Above: r}
			for n := uint64(1); n < 100; n++ {
				require.Equal(t, n <= floor || set[n], a.Done(n), "%d in %v above %d", n, r, floor)
			}
			for i := 1; i < len(r); i++ {
				require.Greater(t, r[i].Lo, r[i-1].Hi+1, "not merged: %v", r)
			}
		}
	}
}

func TestMergedSpans(t *testing.T) {
	require.Equal(t, []Range{{1, 3}, {5, 5}, {7, 8}}, Merged([]uint64{8, 3, 1, 2, 5, 7, 2}))
	require.Empty(t, Merged(nil))
	require.EqualValues(t, 6, Ranges{{1, 3}, {5, 5}, {7, 8}}.Count())
}

func writeLedger(t *testing.T, path string, floor uint64, add ...Range) *Ledger {
	l, _, found, err := read(path)
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, l.rewrite(&Acked{Epoch: 7, Floor: floor}))
	for _, s := range add {
		require.NoError(t, l.Append([]Range{s}, nil))
	}
	return l
}

func TestLedgerSurvivesAnyTear(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.acks")
	l := writeLedger(t, path, 10, Range{11, 12}, Range{20, 20}, Range{13, 14})
	require.NoError(t, l.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	want := map[int]Acked{
		0: {Epoch: 7, Floor: 10}, 1: {Epoch: 7, Floor: 12},
		2: {Epoch: 7, Floor: 12, Above: Ranges{{20, 20}}}, 3: {Epoch: 7, Floor: 14, Above: Ranges{{20, 20}}},
	}
	for cut := range len(whole) + 1 {
		for _, tail := range [][]byte{nil, make([]byte, 33)} {
			require.NoError(t, os.WriteFile(path, append(whole[:cut:cut], tail...), 0o600))
			l, got, found, err := read(path)
			require.NoError(t, err)
			require.Equal(t, cut >= headerSize, found)
			if found {
				w := want[(cut-headerSize)/recordSize]
				require.Equal(t, w.Floor, got.Floor)
				require.ElementsMatch(t, w.Above, got.Above)
				require.NoError(t, l.Append([]Range{{30, 31}}, nil))
				require.NoError(t, l.Close())
				l, got, _, err = read(path)
				require.NoError(t, err)
				require.True(t, got.Done(31), "appended after the tear")
			}
			require.NoError(t, l.Close())
		}
	}
}

func TestLedgerIsRewrittenWhenThatMakesItShorter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.acks")
	l := writeLedger(t, path, 0, Range{1, 1})
	for n := uint64(2); l.size <= compactAt; n++ {
		require.NoError(t, l.Append([]Range{{n, n}}, nil))
	}
	long := l.size
	require.NoError(t, l.Compact(1_000_000, nil), "nothing would be gained")
	require.Equal(t, long, l.size)
	now := Acked{Epoch: 7, Floor: 50_000, Above: Ranges{{60_000, 60_001}}}
	require.NoError(t, l.Compact(1, now.Clone))
	require.EqualValues(t, headerSize+recordSize, l.size)
	require.NoError(t, l.Close())
	_, got, _, err := read(path)
	require.NoError(t, err)
	require.Equal(t, now, got)
}

// TestLedgerThatBrokeIsWrittenAnew: with what it said, and what is added.
func TestLedgerThatBrokeIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.acks")
	l := writeLedger(t, path, 3)
	require.NoError(t, l.file.Close())
	require.Error(t, l.Append([]Range{{4, 4}}, nil))
	before := Acked{Epoch: 7, Floor: 3}
	require.NoError(t, l.Append([]Range{{4, 4}, {9, 9}}, before.Clone))
	require.NoError(t, l.Close())
	_, got, _, err := read(path)
	require.NoError(t, err)
	require.Equal(t, Acked{Epoch: 7, Floor: 4, Above: Ranges{{9, 9}}}, got)
}

func TestLedgerAheadOfItsStreamIsCut(t *testing.T) {
	a := Acked{Epoch: 1, Floor: 10, Above: Ranges{{12, 15}, {20, 22}}}
	require.Equal(t, Acked{Epoch: 1, Floor: 10, Above: Ranges{{12, 13}}}, a.upTo(13))
	require.Equal(t, Acked{Epoch: 1, Floor: 4}, a.upTo(4))
}

func TestWhatASetLacksOfARange(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var r Ranges
		has := map[uint64]bool{}
		for range rng.Uint64N(8) {
			lo := 1 + rng.Uint64N(30)
			s := Range{lo, lo + rng.Uint64N(4)}
			r = r.Add(s)
			for n := s.Lo; n <= s.Hi; n++ {
				has[n] = true
			}
		}
		from := rng.Uint64N(40)
		kept := append(Ranges(nil), r...).From(from)
		s := Range{rng.Uint64N(20), rng.Uint64N(40)}
		var want, got []uint64
		for n := s.Lo; n <= s.Hi; n++ {
			if !has[n] {
				want = append(want, n)
			}
		}
		r.Without(s, func(e Range) bool {
			for n := e.Lo; n <= e.Hi; n++ {
				got = append(got, n)
			}
			return true
		})
		require.Equal(t, want, got, "%v without %v", s, r)
		for n := from; n < 40; n++ {
			_, ok := kept.Find(n)
			require.Equal(t, has[n], ok, "%d of %v from %d", n, r, from)
		}
	}
	calls := 0
	Ranges{{3, 4}}.Without(Range{1, 9}, func(Range) bool { calls++; return false })
	require.Equal(t, 1, calls)
	require.Zero(t, Ranges(nil).Highest())
	require.EqualValues(t, 4, Ranges{{3, 4}}.Highest())
}
