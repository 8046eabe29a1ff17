// Package dedupetest is the conformance suite of dedupe.Store.
package dedupetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// Capability is something that not every store, or not every way to test it,
// can do.
type Capability string

// The capabilities.
const (
	// MovesClock: the store's clock is Subject.Advance's.
	MovesClock Capability = "moves its clock"
	// Reopens: what was written outlives the store, by Subject.Reopen.
	Reopens Capability = "reopens"
)

// Subject is a store under test.
type Subject struct {
	dedupe.Store
	// Lease is the store's, Margin how much longer others leave a reservation alone
	// because clocks differ.
	Lease, Margin time.Duration
	// Tick is how much later than it should what is over may be so, in a store that
	// keeps times in whole units.
	Tick time.Duration
	// Advance moves the store's clock; nil without MovesClock.
	Advance func(time.Duration)
	// Reopen closes the store and returns it opened again; nil without Reopens.
	Reopen func() dedupe.Store
}

type testCase struct {
	name  string
	needs []Capability
	run   func(*testing.T, *Subject)
}

var cases = []testCase{
	{"an id is reserved once", nil, reservedOnce},
	{"a committed id is a duplicate", nil, committed},
	{"a released id is new", nil, released},
	{"scopes do not meet", nil, scopes},
	{"ids of any length and bytes", nil, anyIDs},
	{"values are kept", nil, values},
	{"a window mixes states in order", nil, mixed},
	{"nobody but the owner commits or releases", nil, owners},
	{"one of many at once is told new", nil, race},
	{"crossing windows end", nil, crossing},
	{"an empty window", nil, empty},
	{"who waits is told when to ask again", nil, saysWhen},
	{"a store's life", nil, life},
	{"a reservation lapses", []Capability{MovesClock}, lapses},
	{"a slow owner may still commit", []Capability{MovesClock}, slowOwner},
	{"a slow owner does not take another's reservation", []Capability{MovesClock}, overtaken},
	{"a slow owner commits over another's lapsed reservation", []Capability{MovesClock}, bothSlow},
	{"retention ends", []Capability{MovesClock}, retention},
	{"for ever", []Capability{MovesClock}, forEver},
	{"a commit outlives the process", []Capability{Reopens}, commitOutlives},
	{"a reservation outlives the process and lapses", []Capability{Reopens, MovesClock}, reservationOutlives},
}

// Run holds a store against the contract and returns how many cases did not
// apply.
func Run(t *testing.T, make func(t *testing.T) *Subject, capabilities ...Capability) (skipped int) {
	has := map[Capability]bool{}
	for _, c := range capabilities {
		has[c] = true
	}
	for _, c := range cases {
		if lacking := lack(c, has); lacking != "" {
			skipped++
			t.Run(c.name, func(t *testing.T) { t.Skipf("the store does not do this: %s", lacking) })
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, make(t)) })
	}
	return skipped
}

func lack(c testCase, has map[Capability]bool) Capability {
	for _, need := range c.needs {
		if !has[need] {
			return need
		}
	}
	return ""
}

func birch() dedupe.Scope { return dedupe.Scope{Tenant: "birch", Table: "pages"} }
func anna() dedupe.Owner  { return dedupe.Owner{1} }
func boris() dedupe.Owner { return dedupe.Owner{2} }

func reserve(t *testing.T, s dedupe.Store, o dedupe.Owner, ids ...string) []dedupe.State {
	t.Helper()
	reservations, err := s.Reserve(t.Context(), birch(), o, ids)
	require.NoError(t, err)
	states := make([]dedupe.State, len(reservations))
	for i, c := range reservations {
		states[i] = c.State
	}
	return states
}

func commit(t *testing.T, s dedupe.Store, o dedupe.Owner, keep time.Duration, ids ...string) (lost int) {
	t.Helper()
	entries := make([]dedupe.Entry, len(ids))
	for i, id := range ids {
		entries[i].ID = id
	}
	lost, err := s.Commit(t.Context(), birch(), o, entries, keep)
	require.NoError(t, err)
	return lost
}

func states(all ...dedupe.State) []dedupe.State { return all }

func reservedOnce(t *testing.T, s *Subject) {
	require.Equal(t, states(dedupe.New), reserve(t, s, anna(), "a"))
	require.Equal(t, states(dedupe.InFlight), reserve(t, s, boris(), "a"))
	require.Equal(t, states(dedupe.InFlight), reserve(t, s, anna(), "a"), "a second request of one owner is another request")
}

// saysWhen: who waits for another's id is told when to ask again, and nobody
// else is told to wait.
func saysWhen(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "held", "done")
	commit(t, s, anna(), 0, "done")
	reservations, err := s.Reserve(t.Context(), birch(), boris(), []string{"held", "done", "new"})
	require.NoError(t, err)
	require.Positive(t, reservations[0].RetryAfter)
	require.LessOrEqual(t, reservations[0].RetryAfter, s.Lease+s.Margin+s.Tick)
	require.Zero(t, reservations[1].RetryAfter)
	require.Zero(t, reservations[2].RetryAfter)
}

// life: a store that is wanted works, runs until it is told to end, and is
// unavailable once it is closed.
func life(t *testing.T, s *Subject) {
	require.NoError(t, s.Want(t.Context(), true))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	require.Equal(t, states(dedupe.New), reserve(t, s, anna(), "a"))
	require.NoError(t, s.Want(t.Context(), false))
	require.Equal(t, states(dedupe.InFlight), reserve(t, s, boris(), "a"), "a call is answered, wanted or not")
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, s.Close(t.Context()))
	_, err := s.Reserve(t.Context(), birch(), anna(), []string{"a"})
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	_, err = s.Commit(t.Context(), birch(), anna(), []dedupe.Entry{{ID: "a"}}, 0)
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	require.ErrorIs(t, s.Release(t.Context(), birch(), anna(), []string{"a"}), dedupe.ErrUnavailable)
	require.ErrorIs(t, s.Want(t.Context(), true), dedupe.ErrUnavailable)
}

func committed(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	require.Zero(t, commit(t, s, anna(), 0, "a"))
	require.Equal(t, states(dedupe.Duplicate), reserve(t, s, boris(), "a"))
}

func released(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a", "b")
	require.NoError(t, s.Release(t.Context(), birch(), anna(), []string{"a"}))
	require.Equal(t, states(dedupe.New, dedupe.InFlight), reserve(t, s, boris(), "a", "b"))
	require.NoError(t, s.Release(t.Context(), birch(), anna(), []string{"never reserved"}))
}

func scopes(t *testing.T, s *Subject) {
	for _, scope := range []dedupe.Scope{
		birch(), {Tenant: "birch", Table: "page"}, {Tenant: "birch", Table: "pages\x00"}, {Tenant: "birch", Table: ""},
		{Tenant: "cedar", Table: "pages"}, {Tenant: "birchpages", Table: ""}, {Tenant: "birch", Table: "Pages"},
	} {
		reservations, err := s.Reserve(t.Context(), scope, anna(), []string{"a"})
		require.NoError(t, err)
		assert.Equal(t, dedupe.New, reservations[0].State, "%q", scope)
	}
}

func anyIDs(t *testing.T, s *Subject) {
	long := strings.Repeat("x", 100_000)
	for _, id := range []string{"", "\x00", "\x00\x00", "\xff\xfe", "ö", long, long + "y", strings.Repeat("x", 1024), strings.Repeat("x", 1025)} {
		require.Equal(t, states(dedupe.New), reserve(t, s, anna(), id), "%.20q", id)
		commit(t, s, anna(), 0, id)
		require.Equal(t, states(dedupe.Duplicate), reserve(t, s, anna(), id), "%.20q", id)
	}
}

func values(t *testing.T, s *Subject) {
	value := []byte(strings.Repeat("v", dedupe.MaxValue))
	reserve(t, s, anna(), "a", "b")
	_, err := s.Commit(t.Context(), birch(), anna(), []dedupe.Entry{{ID: "a", Value: value}, {ID: "b"}}, 0)
	require.NoError(t, err)
	reservations, err := s.Reserve(t.Context(), birch(), boris(), []string{"b", "a"})
	require.NoError(t, err)
	require.Empty(t, reservations[0].Value)
	require.Equal(t, value, reservations[1].Value)
}

func mixed(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "done", "held")
	commit(t, s, anna(), 0, "done")
	require.Equal(t, states(dedupe.InFlight, dedupe.New, dedupe.Duplicate, dedupe.New), reserve(t, s, boris(), "held", "x", "done", "y"))
}

func owners(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	require.Equal(t, 1, commit(t, s, boris(), 0, "a"))
	require.NoError(t, s.Release(t.Context(), birch(), boris(), []string{"a"}))
	require.Equal(t, states(dedupe.InFlight), reserve(t, s, boris(), "a"))
	commit(t, s, anna(), 0, "a")
	require.NoError(t, s.Release(t.Context(), birch(), anna(), []string{"a"}))
	require.Equal(t, states(dedupe.Duplicate), reserve(t, s, boris(), "a"), "what is committed is not released")
}

func race(t *testing.T, s *Subject) {
	ids := make([]string, dedupe.MaxWindow)
	for i := range ids {
		ids[i] = fmt.Sprintf("id-%d", i)
	}
	const callers = 6
	results := make([][]dedupe.Reservation, callers)
	var wg sync.WaitGroup
	for n := range callers {
		wg.Go(func() {
			reservations, err := s.Reserve(t.Context(), birch(), dedupe.Owner{byte(n)}, ids)
			if assert.NoError(t, err) {
				results[n] = reservations
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed(), "a caller got no answer")
	for i, id := range ids {
		won := 0
		for _, reservations := range results {
			if reservations[i].State == dedupe.New {
				won++
			}
		}
		require.Equal(t, 1, won, id)
	}
}

// crossing has callers reserve and settle the same ids in opposite orders.
func crossing(t *testing.T, s *Subject) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			o := dedupe.NewOwner()
			for round := range 10 {
				ids := []string{"a", "b", "c", fmt.Sprint(round)}
				if n%2 == 1 {
					ids = []string{fmt.Sprint(round), "c", "b", "a"}
				}
				reservations, err := s.Reserve(ctx, birch(), o, ids)
				if !assert.NoError(t, err) {
					return
				}
				var mine []string
				for i, c := range reservations {
					if c.State == dedupe.New {
						mine = append(mine, ids[i])
					}
				}
				assert.NoError(t, s.Release(ctx, birch(), o, mine))
			}
		})
	}
	wg.Wait()
	require.Equal(t, states(dedupe.New, dedupe.New, dedupe.New), reserve(t, s, anna(), "a", "b", "c"))
}

func empty(t *testing.T, s *Subject) {
	require.Empty(t, reserve(t, s, anna()))
	require.Zero(t, commit(t, s, anna(), 0))
	require.NoError(t, s.Release(t.Context(), birch(), anna(), nil))
}

func lapses(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	s.Advance(s.Lease - time.Millisecond)
	require.Equal(t, states(dedupe.InFlight), reserve(t, s, boris(), "a"))
	s.Advance(s.Margin + s.Tick + 3*time.Millisecond)
	require.Equal(t, states(dedupe.New), reserve(t, s, boris(), "a"))
}

func slowOwner(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	s.Advance(2 * (s.Lease + s.Margin + s.Tick))
	require.Zero(t, commit(t, s, anna(), 0, "a"))
	require.Equal(t, states(dedupe.Duplicate), reserve(t, s, boris(), "a"))
}

func overtaken(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	s.Advance(2 * (s.Lease + s.Margin + s.Tick))
	reserve(t, s, boris(), "a")
	require.Equal(t, 1, commit(t, s, anna(), 0, "a"))
	require.NoError(t, s.Release(t.Context(), birch(), anna(), []string{"a"}))
	require.Equal(t, states(dedupe.InFlight), reserve(t, s, anna(), "a"))
	require.Zero(t, commit(t, s, boris(), 0, "a"))
	require.Equal(t, states(dedupe.Duplicate), reserve(t, s, anna(), "a"))
}

func bothSlow(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	s.Advance(2 * (s.Lease + s.Margin + s.Tick))
	reserve(t, s, boris(), "a")
	s.Advance(2 * (s.Lease + s.Margin + s.Tick))
	require.Zero(t, commit(t, s, anna(), 0, "a"))
	require.NoError(t, s.Release(t.Context(), birch(), boris(), []string{"a"}))
	require.Equal(t, states(dedupe.Duplicate), reserve(t, s, boris(), "a"))
}

func retention(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	commit(t, s, anna(), 2*time.Minute, "a")
	s.Advance(2*time.Minute - time.Millisecond)
	require.Equal(t, states(dedupe.Duplicate), reserve(t, s, boris(), "a"))
	s.Advance(s.Tick + 3*time.Millisecond)
	require.Equal(t, states(dedupe.New), reserve(t, s, boris(), "a"))
}

func forEver(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	commit(t, s, anna(), 0, "a")
	s.Advance(100 * 365 * 24 * time.Hour)
	require.Equal(t, states(dedupe.Duplicate), reserve(t, s, boris(), "a"))
}

func commitOutlives(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	commit(t, s, anna(), 0, "a")
	require.Equal(t, states(dedupe.Duplicate), reserve(t, s.Reopen(), boris(), "a"))
}

func reservationOutlives(t *testing.T, s *Subject) {
	reserve(t, s, anna(), "a")
	again := s.Reopen()
	require.Equal(t, states(dedupe.InFlight), reserve(t, again, boris(), "a"))
	s.Advance(2 * (s.Lease + s.Margin + s.Tick))
	require.Equal(t, states(dedupe.New), reserve(t, again, boris(), "a"))
}
