package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clocktest"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/dedupetest"
)

func newClock() *clocktest.Clock { return clocktest.At(time.UnixMilli(1_700_000_000_000)) }

func start(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "pebble")
	}
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	o.Logger = slog.New(slog.DiscardHandler)
	s := New(o)
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Store) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, s.Close(ctx))
}

func TestConformance(t *testing.T) {
	skipped := dedupetest.Run(t, func(t *testing.T) *dedupetest.Subject {
		c := newClock()
		o := Options{Dir: filepath.Join(t.TempDir(), "pebble"), Now: c.Now}
		s := start(t, o)
		return &dedupetest.Subject{Store: s, Lease: s.o.Lease, Advance: c.Pass, Reopen: func() dedupe.Store {
			stop(t, s)
			return start(t, o)
		}}
	}, dedupetest.MovesClock, dedupetest.Reopens)
	require.Zero(t, skipped)
}

var (
	pages = dedupe.Scope{Tenant: "birch", Table: "pages"}
	anna  = dedupe.Owner{1}
)

func reserveOne(ctx context.Context, s *Store, id string) (dedupe.State, error) {
	reservations, err := s.Reserve(ctx, pages, dedupe.NewOwner(), []string{id})
	if err != nil {
		return 0, err
	}
	return reservations[0].State, nil
}

func TestNothingIsOpenedUntilAsked(t *testing.T) {
	s := start(t, Options{})
	require.NoError(t, s.Want(t.Context(), false))
	require.NoDirExists(t, s.o.Dir)
	require.NoError(t, s.Want(t.Context(), true))
	require.DirExists(t, s.o.Dir)
	require.True(t, s.isOpen())
}

func TestUnwantedStoreClosesWhenIdle(t *testing.T) {
	s := start(t, Options{IdleAfter: time.Nanosecond})
	_, err := reserveOne(t.Context(), s, "a")
	require.NoError(t, err, "a call opens it, wanted or not")
	require.NoError(t, s.Want(t.Context(), true))
	require.NoError(t, s.closeIdle())
	require.True(t, s.isOpen(), "it is wanted")
	require.NoError(t, s.Want(t.Context(), false))
	require.Eventually(t, func() bool { // what looks after it by itself may use it just now
		require.NoError(t, s.closeIdle())
		return !s.isOpen()
	}, time.Minute, time.Millisecond)
	state, err := reserveOne(t.Context(), s, "a")
	require.NoError(t, err)
	require.Equal(t, dedupe.InFlight, state)
}

func TestFailureToOpenIsPacedAndHeals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pebble")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	s := start(t, Options{Dir: dir, OpenInterval: time.Hour})
	require.ErrorIs(t, s.Want(t.Context(), true), dedupe.ErrUnavailable)
	_, err := reserveOne(t.Context(), s, "a")
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	require.NoError(t, os.Remove(dir))
	_, err = reserveOne(t.Context(), s, "a")
	require.ErrorIs(t, err, dedupe.ErrUnavailable, "it is not time to try again")
	require.NoError(t, s.Want(t.Context(), true), "a reload tries at once")
	_, err = reserveOne(t.Context(), s, "a")
	require.NoError(t, err)
}

func TestFailureToOpenHealsByItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pebble")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	s := start(t, Options{Dir: dir, OpenInterval: time.Millisecond})
	require.Error(t, s.Want(t.Context(), true))
	require.NoError(t, os.Remove(dir))
	require.Eventually(t, func() bool {
		_, err := reserveOne(t.Context(), s, "a")
		return err == nil
	}, time.Minute, 2*time.Millisecond)
}

func TestSecondStoreOfOneFolderIsRefused(t *testing.T) {
	s := start(t, Options{})
	require.NoError(t, s.Want(t.Context(), true))
	require.ErrorIs(t, start(t, Options{Dir: s.o.Dir}).Want(t.Context(), true), dedupe.ErrUnavailable)
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	s := start(t, Options{})
	stop(t, s)
	_, err := reserveOne(t.Context(), s, "a")
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
}

func TestSweep(t *testing.T) {
	c := newClock()
	s := start(t, Options{Now: c.Now})
	var all []string
	for n := range 3000 {
		all = append(all, fmt.Sprintf("id-%04d", n))
	}
	for at := 0; at < len(all); at += 250 {
		ids := all[at : at+250]
		_, err := s.Reserve(t.Context(), pages, anna, ids)
		require.NoError(t, err)
		keep := time.Duration(0) // every other window for ever
		if at%500 != 0 {
			keep = 5 * time.Minute
		}
		entries := make([]dedupe.Entry, len(ids))
		for i, id := range ids {
			entries[i].ID = id
		}
		_, err = s.Commit(t.Context(), pages, anna, entries, keep)
		require.NoError(t, err)
	}
	_, err := s.Reserve(t.Context(), pages, anna, []string{"claim"})
	require.NoError(t, err)
	n, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	c.Pass(10 * time.Minute)
	n, err = s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1501, n)
	n, err = s.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	state, err := reserveOne(t.Context(), s, all[0])
	require.NoError(t, err)
	require.Equal(t, dedupe.Duplicate, state, "for ever is not swept")
}

// TestSweepTakesNoReservation has ids lapse and be reserved anew under a sweep that
// never rests.
func TestSweepTakesNoReservation(t *testing.T) {
	c := newClock()
	s := start(t, Options{Now: c.Now, Lease: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = s.Sweep(ctx)
		}
	})
	for range 50 {
		state, err := reserveOne(t.Context(), s, "a")
		require.NoError(t, err)
		require.Equal(t, dedupe.New, state)
		state, err = reserveOne(t.Context(), s, "a")
		require.NoError(t, err)
		require.Equal(t, dedupe.InFlight, state)
		c.Pass(2 * time.Second)
	}
	cancel()
	wg.Wait()
}

// faulty fails syncs while it is told to.
type faulty struct {
	vfs.FS
	fail atomic.Bool
}

func (f *faulty) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return &faultyFile{file, f}, err
}

func (f *faulty) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, c)
	return &faultyFile{file, f}, err
}

type faultyFile struct {
	vfs.File
	fs *faulty
}

func (f *faultyFile) check() error {
	if f.fs.fail.Load() {
		return syscall.EIO
	}
	return nil
}

func (f *faultyFile) Sync() error     { return errors.Join(f.check(), f.File.Sync()) }
func (f *faultyFile) SyncData() error { return errors.Join(f.check(), f.File.SyncData()) }
func (f *faultyFile) SyncTo(n int64) (bool, error) {
	full, err := f.File.SyncTo(n)
	return full, errors.Join(f.check(), err)
}

// TestFailedSyncEndsTheInstanceAlone breaks the disk under Pebble, which would
// end the process: here the files are opened again and nothing that was
// answered is forgotten.
func TestFailedSyncEndsTheInstanceAlone(t *testing.T) {
	fs := &faulty{FS: vfs.Default}
	s := start(t, Options{fs: fs, OpenInterval: time.Millisecond})
	_, err := s.Reserve(t.Context(), pages, anna, []string{"before"})
	require.NoError(t, err)
	_, err = s.Commit(t.Context(), pages, anna, []dedupe.Entry{{ID: "before"}}, 0)
	require.NoError(t, err)
	fs.fail.Store(true)
	_, err = reserveOne(t.Context(), s, "lost")
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	require.False(t, s.isOpen())
	fs.fail.Store(false)
	require.Eventually(t, func() bool {
		state, err := reserveOne(t.Context(), s, "before")
		return err == nil && state == dedupe.Duplicate
	}, time.Minute, 5*time.Millisecond)
	state, err := reserveOne(t.Context(), s, "after")
	require.NoError(t, err)
	require.Equal(t, dedupe.New, state)
}

func TestGivingUpAgainAndAgainEndsInRefusal(t *testing.T) {
	s := start(t, Options{OpenInterval: time.Nanosecond})
	for range maxGivenUp {
		require.NoError(t, s.Want(t.Context(), true))
		s.instance.giveUp(errors.New("a fault"))
		require.False(t, s.isOpen())
	}
	require.ErrorContains(t, s.Want(t.Context(), true), "restart")
}
