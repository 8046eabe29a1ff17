package embedded

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
		var r spans
		set, floor := map[uint64]bool{}, uint64(0)
		for range 60 {
			lo := 1 + rng.Uint64N(80)
			s := span{lo, lo + rng.Uint64N(6)}
			r = r.add(s)
			for n := s.lo; n <= s.hi; n++ {
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
			a := acked{floor: floor, above: r}
			for n := uint64(1); n < 100; n++ {
				require.Equal(t, n <= floor || set[n], a.done(n), "%d in %v above %d", n, r, floor)
			}
			for i := 1; i < len(r); i++ {
				require.Greater(t, r[i].lo, r[i-1].hi+1, "not merged: %v", r)
			}
		}
	}
}

func TestMergedSpans(t *testing.T) {
	require.Equal(t, []span{{1, 3}, {5, 5}, {7, 8}}, merged([]uint64{8, 3, 1, 2, 5, 7, 2}))
	require.Empty(t, merged(nil))
	require.EqualValues(t, 6, spans{{1, 3}, {5, 5}, {7, 8}}.count())
}

func writeLedger(t *testing.T, path string, floor uint64, add ...span) *ledger {
	l, _, found, err := openLedger(path)
	require.NoError(t, err)
	require.False(t, found)
	require.ErrorIs(t, l.append(add), errRewrite)
	require.NoError(t, l.rewrite(&acked{epoch: 7, floor: floor}))
	for _, s := range add {
		require.NoError(t, l.append([]span{s}))
	}
	return l
}

func TestLedgerSurvivesAnyTear(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.acks")
	l := writeLedger(t, path, 10, span{11, 12}, span{20, 20}, span{13, 14})
	require.NoError(t, l.close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	want := map[int]acked{
		0: {epoch: 7, floor: 10}, 1: {epoch: 7, floor: 12},
		2: {epoch: 7, floor: 12, above: spans{{20, 20}}}, 3: {epoch: 7, floor: 14, above: spans{{20, 20}}},
	}
	for cut := range len(whole) + 1 {
		for _, tail := range [][]byte{nil, make([]byte, 33)} {
			require.NoError(t, os.WriteFile(path, append(whole[:cut:cut], tail...), 0o600))
			l, got, found, err := openLedger(path)
			require.NoError(t, err)
			require.Equal(t, cut >= ledgerHeader, found)
			if found {
				w := want[(cut-ledgerHeader)/ledgerRecord]
				require.Equal(t, w.floor, got.floor)
				require.ElementsMatch(t, w.above, got.above)
				require.NoError(t, l.append([]span{{30, 31}}))
				require.NoError(t, l.close())
				l, got, _, err = openLedger(path)
				require.NoError(t, err)
				require.True(t, got.done(31), "appended after the tear")
			}
			require.NoError(t, l.close())
		}
	}
}

func TestLedgerRewriteIsShorter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.acks")
	l := writeLedger(t, path, 0, span{1, 1})
	for n := uint64(2); !l.long(0); n++ {
		require.NoError(t, l.append([]span{{n, n}}))
		require.Less(t, n, uint64(100_000))
	}
	require.False(t, l.long(1_000_000), "nothing would be gained")
	require.NoError(t, l.rewrite(&acked{epoch: 7, floor: 50_000, above: spans{{60_000, 60_001}}}))
	require.EqualValues(t, ledgerHeader+ledgerRecord, l.size)
	require.NoError(t, l.close())
	_, got, _, err := openLedger(path)
	require.NoError(t, err)
	require.Equal(t, acked{epoch: 7, floor: 50_000, above: spans{{60_000, 60_001}}}, got)
}

func TestLedgerAheadOfItsStreamIsCut(t *testing.T) {
	a := acked{epoch: 1, floor: 10, above: spans{{12, 15}, {20, 22}}}
	require.Equal(t, acked{epoch: 1, floor: 10, above: spans{{12, 13}}}, a.upTo(13))
	require.Equal(t, acked{epoch: 1, floor: 4}, a.upTo(4))
}

func TestAllowance(t *testing.T) {
	a := newAllowance(0, 1000)
	sources := []*source{{wake: make(chan struct{}, 1)}, {wake: make(chan struct{}, 1)}, {wake: make(chan struct{}, 1)}}
	require.EqualValues(t, 400, a.room(sources[0], 0, 400))
	a.take(400)
	require.EqualValues(t, 200, a.room(sources[0], 400, 400), "one tenant gets half")
	a.take(200)
	require.EqualValues(t, 0, a.room(sources[0], 600, 1))
	require.EqualValues(t, 400, a.room(sources[1], 0, 400), "the next still gets something")
	a.take(400)
	require.EqualValues(t, 1, a.room(sources[2], 0, 50), "whoever holds nothing gets one")
	a.give(10)
	require.Len(t, sources[0].wake, 1)
	require.Len(t, sources[2].wake, 1)
	limited := newAllowance(100, 1000)
	require.EqualValues(t, 40, limited.room(sources[0], 60, 400))
}
