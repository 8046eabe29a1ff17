package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clocktest"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/dedupetest"
	"github.com/wavehouse/wavehouse/internal/dedupe/pebble"
)

const lease = 30 * time.Second

func open(t *testing.T, dir string, c *clocktest.Clock) *pebble.Store {
	s := pebble.New(pebble.Options{Dir: dir, Lease: lease, Now: c.Now, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func TestLateKeepsTheContract(t *testing.T) {
	skipped := dedupetest.Run(t, func(t *testing.T) *dedupetest.Subject {
		c, dir := clocktest.At(time.UnixMilli(1_700_000_000_000)), filepath.Join(t.TempDir(), "pebble")
		l := dedupe.NewLate(open(t, dir, c), nil)
		return &dedupetest.Subject{Store: l, Lease: lease, Advance: c.Pass, Reopen: func() dedupe.Store {
			require.NoError(t, l.Close(context.Background()))
			return dedupe.NewLate(open(t, dir, c), nil)
		}}
	}, dedupetest.MovesClock, dedupetest.Reopens)
	require.Zero(t, skipped)
}

// faulty fails commits while it is told to.
type faulty struct {
	dedupe.Store
	mu   sync.Mutex
	down bool
}

func (f *faulty) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *faulty) Commit(ctx context.Context, s dedupe.Scope, o dedupe.Owner, entries []dedupe.Entry, retention time.Duration) (int, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return 0, fmt.Errorf("%w: %w", dedupe.ErrUnavailable, errors.ErrUnsupported)
	}
	return f.Store.Commit(ctx, s, o, entries, retention)
}

// An id whose record is stored stays its own when the commit fails, although the
// reservation lapses meanwhile.
func TestACommitThatFailsIsMadeLater(t *testing.T) {
	c := clocktest.At(time.Now())
	f := &faulty{Store: open(t, filepath.Join(t.TempDir(), "pebble"), c)}
	l := dedupe.NewLate(f, nil)
	pages := dedupe.Scope{Tenant: "birch", Table: "pages"}
	lose := func(id string) {
		t.Helper()
		f.set(true)
		reserved, err := l.Reserve(t.Context(), pages, dedupe.Owner{1}, []string{id})
		require.NoError(t, err)
		require.Equal(t, dedupe.New, reserved[0].State)
		_, err = l.Commit(t.Context(), pages, dedupe.Owner{1}, []dedupe.Entry{{ID: id}}, 0)
		require.ErrorIs(t, err, dedupe.ErrUnavailable)
		c.Pass(2 * lease)
		f.set(false)
	}
	duplicate := func(s dedupe.Store, id string) {
		t.Helper()
		reserved, err := s.Reserve(t.Context(), pages, dedupe.Owner{2}, []string{id})
		require.NoError(t, err)
		require.Equal(t, dedupe.Duplicate, reserved[0].State)
	}
	lose("asked for")
	require.Equal(t, 1, l.Pending())
	duplicate(l, "asked for")
	require.Zero(t, l.Pending())

	lose("by itself")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	require.Eventually(t, func() bool { return l.Pending() == 0 }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	duplicate(f.Store, "by itself")

	f.set(true)
	for range 200 {
		_, err := l.Commit(t.Context(), pages, dedupe.Owner{1}, make([]dedupe.Entry, dedupe.MaxWindow), 0)
		require.Error(t, err)
	}
	require.LessOrEqual(t, l.Pending(), 50_000, "bounded")
}
