package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// steps are what happened, in order. It is what a logger writes to, too.
type steps struct {
	mu  sync.Mutex
	all []string
}

func (s *steps) add(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, step)
}

func (s *steps) Write(line []byte) (int, error) {
	s.add(string(line))
	return len(line), nil
}

// at is where the first step with the text is, -1 when there is none.
func (s *steps) at(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.IndexFunc(s.all, func(step string) bool { return strings.Contains(step, text) })
}

// The parts of an App that tell when they have ended, and take a moment to.
type (
	lateCache struct {
		cache.Cache
		*steps
	}
	lateIDs struct {
		dedupe.Store
		*steps
	}
	lateNotices struct {
		notice.Bus
		*steps
		fails chan error
	}
)

func (s *steps) end(name string, err error) error {
	time.Sleep(30 * time.Millisecond) // who does not wait for it is found out
	s.add(name + " has ended")
	return err
}

func (c lateCache) Run(ctx context.Context) error { return c.end("cache", c.Cache.Run(ctx)) }

func (d lateIDs) Run(ctx context.Context) error { return d.end("ids", d.Store.Run(ctx)) }

func (n lateNotices) Run(ctx context.Context) error {
	select {
	case err := <-n.fails:
		return err
	case <-ctx.Done():
		return n.end("notices", n.Bus.Run(ctx))
	}
}

// runLate runs an App whose parts end late until stop, or until what fails gives.
func runLate(t *testing.T, fails chan error) (s *steps, url string, stop func() error) {
	t.Helper()
	s = &steps{}
	started, ended := make(chan net.Addr, 1), make(chan error, 1)
	a := newApp(t, writeSettings(t, nowhere), t.TempDir(), 0, slog.New(slog.NewTextHandler(s, nil)), started, allRoles...)
	a.cache, a.dedupe, a.notices = lateCache{a.cache, s}, lateIDs{a.dedupe, s}, lateNotices{a.notices, s, fails}
	for i, end := range a.closers {
		a.closers[i] = func(ctx context.Context) error {
			s.add("closing")
			return end(ctx)
		}
	}
	a.closers = append(a.closers, func(context.Context) error {
		s.add("closing begins")
		return errors.New("a part that cannot be closed")
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { ended <- a.Run(ctx) }()
	return s, "http://" + (<-started).String(), func() error {
		if fails == nil {
			cancel()
		}
		return <-ended
	}
}

func TestWhatIsClosedHasEnded(t *testing.T) {
	s, url, stop := runLate(t, nil)
	require.NoError(t, stop())
	closed := s.at("closing begins")
	require.Positive(t, closed)
	for _, part := range []string{"cache has ended", "ids has ended", "notices has ended"} {
		require.Positive(t, s.at(part), part)
		require.Less(t, s.at(part), closed, part)
	}
	require.Equal(t, closed, s.at("closing"), "the last that was opened is closed first")
	require.Greater(t, s.at("a part that cannot be closed"), closed, "it is told, and the others are closed all the same")
	require.Less(t, s.at("close stores"), s.at("msg=stopped"))
	_, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.Error(t, err, "nobody listens")
}

func TestAPartThatFailsStopsAllOthersAndIsNamed(t *testing.T) {
	fails := make(chan error, 1)
	s, _, stop := runLate(t, fails)
	fails <- errors.New("out of order")
	require.ErrorContains(t, stop(), "notices: out of order")
	for _, part := range []string{"cache has ended", "ids has ended"} {
		require.Positive(t, s.at(part), part)
		require.Less(t, s.at(part), s.at("closing begins"), part)
	}
}
