package pebble

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// remember commits a window of ids of a tenant; false is that there is no room.
func remember(t *testing.T, s *Store, of tenant.ID, window int) bool {
	t.Helper()
	scope := dedupe.Scope{Tenant: of, Table: "pages"}
	ids, entries := make([]string, 100), make([]dedupe.Entry, 100)
	for i := range ids {
		ids[i] = fmt.Sprintf("id-%06d", window*100+i)
		entries[i].ID = ids[i]
	}
	_, err := s.Reserve(t.Context(), scope, anna, ids)
	if err != nil {
		require.ErrorIs(t, err, dedupe.ErrFull)
		require.ErrorIs(t, err, dedupe.ErrUnavailable)
		return false
	}
	_, err = s.Commit(t.Context(), scope, anna, entries, 0)
	require.NoError(t, err)
	return true
}

// fill remembers windows until there is no room, and says how many.
func fill(t *testing.T, s *Store, of tenant.ID) int {
	t.Helper()
	for n := range 1000 {
		if !remember(t, s, of, n) {
			return n
		}
	}
	require.Fail(t, "there is always room")
	return 0
}

func TestATenantsIdsHaveABudget(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "pebble"), Now: newClock().Now}
	s := start(t, o)
	budgets := map[tenant.ID]dedupe.Budget{"birch": {Bytes: 64 << 10}, "cedar": {Bytes: 1 << 30}}
	s.SetBudgets(budgets)
	n := fill(t, s, "birch")
	require.InDelta(t, 64<<10, n*100*70, 20<<10, "some 70 bytes each")
	require.True(t, remember(t, s, "cedar", 0), "another tenant has room")
	require.True(t, remember(t, s, "maple", 0), "no budget is no bound")
	r, err := s.Reserve(t.Context(), dedupe.Scope{Tenant: "birch", Table: "pages"}, anna, []string{"id-000000"})
	require.NoError(t, err, "what is known is answered")
	require.Equal(t, dedupe.Duplicate, r[0].State)

	stop(t, s)
	s = start(t, o)
	s.SetBudgets(budgets)
	require.False(t, remember(t, s, "birch", n), "it is full after a restart")
	removed, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, removed)
	require.False(t, remember(t, s, "birch", n), "and after a sweep has counted")

	// What is given up is given back.
	s.SetBudgets(map[tenant.ID]dedupe.Budget{"birch": {Bytes: 100 << 10}})
	scope := dedupe.Scope{Tenant: "birch", Table: "pages"}
	for range 1000 {
		_, err = s.Reserve(t.Context(), scope, anna, []string{"given up"})
		require.NoError(t, err)
		require.NoError(t, s.Release(t.Context(), scope, anna, []string{"given up"}))
	}
}

func TestIdsThatAreOverMakeRoom(t *testing.T) {
	c := newClock()
	s := start(t, Options{Now: c.Now, Lease: time.Second})
	s.SetBudgets(map[tenant.ID]dedupe.Budget{"birch": {Bytes: 16 << 10}})
	scope := dedupe.Scope{Tenant: "birch", Table: "pages"}
	n := 0
	for ; ; n++ {
		if _, err := s.Reserve(t.Context(), scope, anna, []string{fmt.Sprintf("id-%06d", n)}); err != nil {
			require.ErrorIs(t, err, dedupe.ErrFull)
			break
		}
	}
	c.Pass(time.Minute)
	removed, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, n, removed)
	require.True(t, remember(t, s, "birch", 0))
}

func TestTheOldestIdsAreForgotten(t *testing.T) {
	c := newClock()
	s := start(t, Options{Now: c.Now})
	s.SetBudgets(map[tenant.ID]dedupe.Budget{"birch": {Bytes: 64 << 10, Forget: true}, "cedar": {Bytes: 1 << 30}})
	require.True(t, remember(t, s, "cedar", 0))
	n := 0
	for ; remember(t, s, "birch", n); n++ {
		c.Pass(time.Minute)
	}
	select {
	case <-s.count.crowded:
	default:
		require.Fail(t, "nobody was told that there is no room")
	}
	require.NoError(t, s.forget(t.Context()))
	require.True(t, remember(t, s, "birch", n), "there is room")
	known := func(of tenant.ID, window int) bool {
		r, err := s.Reserve(t.Context(), dedupe.Scope{Tenant: of, Table: "pages"}, dedupe.NewOwner(), []string{fmt.Sprintf("id-%06d", window*100)})
		require.NoError(t, err)
		return r[0].State == dedupe.Duplicate
	}
	require.False(t, known("birch", 0), "the oldest")
	require.True(t, known("birch", n-1), "the youngest")
	require.True(t, known("birch", n*3/4))
	require.True(t, known("cedar", 0), "of another tenant")
}

// What an earlier version committed has no time, and is known.
func TestUndatedIdsAreKnown(t *testing.T) {
	e, err := parseEntry(append([]byte{kindUndated, 0, 0, 0, 0, 0, 0, 0, 0}, "value"...))
	require.NoError(t, err)
	require.EqualValues(t, kindCommitted, e.kind)
	require.Equal(t, "value", string(e.value))
	require.Zero(t, e.made)
}
