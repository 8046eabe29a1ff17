package cache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/local"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

type rig struct {
	*cache.Reads
	store    *local.Cache
	registry *prometheus.Registry
}

func newRig(t testing.TB) *rig {
	t.Helper()
	store, err := local.New(local.Options{MaxBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
	registry := prometheus.NewRegistry()
	return &rig{cache.NewReads(cache.ReadsOptions{Cache: store, Metrics: registry}), store, registry}
}

func (r *rig) counted(t *testing.T, outcome string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == outcome {
			return m.GetCounter().GetValue()
		}
	}
	return 0
}

// slow is a query that waits to be let go.
type slow struct {
	started chan context.Context
	release chan error
	runs    atomic.Int32
}

func newSlow() *slow {
	return &slow{started: make(chan context.Context, 16), release: make(chan error, 16)}
}

func (s *slow) query(question string) cache.Query {
	return cache.Query{
		Key: cache.NewKey("a").Add(question).Key(),
		Dependencies: func(context.Context) cache.Dependencies {
			return cache.Dependencies{Tables: []string{"t"}, Complete: true}
		},
		Run: func(ctx context.Context) (cache.Answer, error) {
			s.runs.Add(1)
			s.started <- ctx
			select {
			case err := <-s.release:
				return cache.Answer{Body: []byte("answer"), ContentType: "text/plain"}, err
			case <-ctx.Done():
				return cache.Answer{}, ctx.Err()
			}
		},
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		require.FailNow(t, "it did not come to pass")
		panic("unreachable")
	}
}

func TestColdQuestionIsAskedOnce(t *testing.T) {
	r, s := newRig(t), newSlow()
	s.release <- nil
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			v, _, err := r.Get(t.Context(), s.query("q"))
			if assert.NoError(t, err) {
				body, _ := v.Body()
				assert.Equal(t, "answer", string(body))
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, s.runs.Load())
	assert.InDelta(t, 1, r.counted(t, "miss"), 0)
	assert.InDelta(t, 63, r.counted(t, "hit")+r.counted(t, "shared"), 0)
	assert.Equal(t, 1, testutil.CollectAndCount(r.registry, "wavehouse_cache_reads_total")/3)
}

func TestFirstCallerLeaves(t *testing.T) {
	r, s := newRig(t), newSlow()
	first, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, err := r.Get(first, s.query("q"))
		gone <- err
	}()
	running := receive(t, s.started)
	var others sync.WaitGroup
	answers := make(chan error, 9)
	for range 9 {
		others.Go(func() {
			_, _, err := r.Get(t.Context(), s.query("q"))
			answers <- err
		})
	}
	leave()
	s.release <- nil
	s.release <- nil // for a second query, should the others have come too late
	for range 9 {
		require.NoError(t, receive(t, answers))
	}
	others.Wait()
	require.ErrorIs(t, receive(t, gone), context.Canceled)
	assert.LessOrEqual(t, s.runs.Load(), int32(2))
	_ = running
}

func TestAllCallersLeave(t *testing.T) {
	r, s := newRig(t), newSlow()
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 10)
	for range 10 {
		go func() {
			_, _, err := r.Get(ctx, s.query("q"))
			gone <- err
		}()
	}
	running := receive(t, s.started)
	leave()
	for range 10 {
		require.ErrorIs(t, receive(t, gone), context.Canceled)
	}
	receive(t, running.Done())

	// A later question never joins the one that was cancelled.
	s.release <- nil
	_, outcome, err := r.Get(t.Context(), s.query("q"))
	require.NoError(t, err)
	assert.Equal(t, cache.Miss, outcome)
	require.NoError(t, r.Close(t.Context()))
}

func TestWriteWhileTheQueryRuns(t *testing.T) {
	r, s := newRig(t), newSlow()
	first := make(chan error, 1)
	go func() {
		_, _, err := r.Get(t.Context(), s.query("q"))
		first <- err
	}()
	receive(t, s.started)
	require.NoError(t, r.store.Invalidate(t.Context(), []tenant.ID{"a"}, []string{"t"}))

	// One who asks after the write does not share the query from before it.
	second := make(chan cache.Outcome, 1)
	go func() {
		_, outcome, err := r.Get(t.Context(), s.query("q"))
		assert.NoError(t, err)
		second <- outcome
	}()
	receive(t, s.started)
	s.release <- nil
	s.release <- nil
	require.NoError(t, receive(t, first))
	assert.Equal(t, cache.Miss, receive(t, second))
	assert.EqualValues(t, 2, s.runs.Load())

	_, outcome, err := r.Get(t.Context(), s.query("q"))
	require.NoError(t, err)
	assert.Equal(t, cache.Hit, outcome, "what was read after the write is kept")
}

func TestFailuresAreSharedAndNotKept(t *testing.T) {
	r, s := newRig(t), newSlow()
	broken := errors.New("broken")
	s.release <- broken
	_, _, err := r.Get(t.Context(), s.query("q"))
	require.ErrorIs(t, err, broken)
	s.release <- nil
	_, outcome, err := r.Get(t.Context(), s.query("q"))
	require.NoError(t, err)
	assert.Equal(t, cache.Miss, outcome)
}

func TestPanicReachesTheCaller(t *testing.T) {
	r, s := newRig(t), newSlow()
	q := s.query("q")
	q.Run = func(context.Context) (cache.Answer, error) { panic("a bug") }
	assert.PanicsWithValue(t, "a bug", func() { _, _, _ = r.Get(t.Context(), q) })
	s.release <- nil
	_, _, err := r.Get(t.Context(), s.query("q"))
	require.NoError(t, err, "the question is not stuck")
}

func TestCloseWaits(t *testing.T) {
	r, s := newRig(t), newSlow()
	done := make(chan error, 1)
	go func() {
		_, _, err := r.Get(t.Context(), s.query("q"))
		done <- err
	}()
	receive(t, s.started)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.Close(short), context.DeadlineExceeded)
	s.release <- nil
	require.NoError(t, receive(t, done))
	require.NoError(t, r.Close(t.Context()))
}

// An answer that may depend on tables nobody named is kept for seconds, however
// dear it was.
func TestAnswersOfUnknownTablesAreKeptForSeconds(t *testing.T) {
	says := func(yes bool) func(context.Context) bool { return func(context.Context) bool { return yes } }
	for name, c := range map[string]struct {
		deps cache.Dependencies
		want cache.Outcome
	}{
		"known": {cache.Dependencies{Complete: true}, cache.Hit}, "unknown": {cache.Dependencies{}, cache.Miss},
		"confirmed": {cache.Dependencies{Complete: true, Confirm: says(true)}, cache.Hit}, "changed meanwhile": {cache.Dependencies{Complete: true, Confirm: says(false)}, cache.Miss},
	} {
		now := time.Date(2026, 3, 24, 12, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		store, err := local.New(local.Options{MaxBytes: 1 << 20, Now: clock})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
		reads := cache.NewReads(cache.ReadsOptions{Cache: store, Now: clock})
		question := cache.Query{
			Key:          cache.NewKey("a").Add("q").Key(),
			Dependencies: func(context.Context) cache.Dependencies { return c.deps },
			Run: func(context.Context) (cache.Answer, error) {
				now = now.Add(time.Second)
				return cache.Answer{Body: []byte("answer"), ContentType: "text/plain", Notes: []cache.Note{{Name: "X-Made", Value: "now"}}}, nil
			},
		}
		for after, outcome := range []cache.Outcome{cache.Miss, cache.Hit, c.want} {
			now = now.Add(time.Duration(after) * 6 * time.Second)
			value, got, err := reads.Get(t.Context(), question)
			require.NoError(t, err)
			assert.Equal(t, "now", value.Note("X-Made"), "whoever is given the answer")
			assert.Equal(t, outcome, got, "%s, look %d", name, after)
		}
	}
}

// A look at the views costs as much as a small query: who asks for little pays none.
func TestCheapAnswersAreKeptForSecondsUnconfirmed(t *testing.T) {
	for took, looks := range map[time.Duration]int{20 * time.Millisecond: 0, 100 * time.Millisecond: 1} {
		now := time.Date(2026, 3, 24, 12, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		store, err := local.New(local.Options{MaxBytes: 1 << 20, Now: clock})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
		reads, looked := cache.NewReads(cache.ReadsOptions{Cache: store, Now: clock}), 0
		question := cache.Query{
			Key: cache.NewKey("a").Add("q").Key(),
			Dependencies: func(context.Context) cache.Dependencies {
				return cache.Dependencies{Complete: true, Confirm: func(context.Context) bool { looked++; return true }}
			},
			Run: func(context.Context) (cache.Answer, error) {
				now = now.Add(took)
				return cache.Answer{Body: []byte("answer"), ContentType: "text/plain"}, nil
			},
		}
		ask := func() cache.Outcome {
			_, outcome, err := reads.Get(t.Context(), question)
			require.NoError(t, err)
			return outcome
		}
		require.Equal(t, cache.Miss, ask())
		assert.Equal(t, looks, looked, took)
		now = now.Add(9 * time.Second)
		require.Equal(t, cache.Hit, ask(), took)
		now = now.Add(2 * time.Second)
		assert.Equal(t, looks == 1, ask() == cache.Hit, took)
	}
}

func TestTTL(t *testing.T) {
	for _, c := range []struct {
		took, own time.Duration
		bound     bool
		want      time.Duration
	}{
		{0, 0, true, 10 * time.Second},
		{time.Millisecond, 0, true, 10 * time.Second},
		{time.Second, 0, true, 10 * time.Minute},
		{time.Minute, 0, true, time.Hour},
		{time.Minute, 0, false, 10 * time.Second},
		{time.Minute, 30 * time.Second, true, 30 * time.Second},
		{time.Minute, 30 * time.Second, false, 30 * time.Second},
		{time.Millisecond, 24 * time.Hour, true, 10 * time.Second},
		{time.Hour, 24 * time.Hour, true, time.Hour},
	} {
		assert.Equal(t, c.want, cache.TTL(c.took, c.own, c.bound), "%+v", c)
	}
}

func TestKeysTellPartsApart(t *testing.T) {
	key := func(parts ...string) cache.Key {
		k := cache.NewKey("a")
		for _, p := range parts {
			k.Add(p)
		}
		return k.Key()
	}
	assert.Equal(t, key("a", "b"), key("a", "b"))
	assert.NotEqual(t, key("a", "bc"), key("ab", "c"))
	assert.NotEqual(t, key("a"), key("a", ""))
	assert.NotEqual(t, cache.NewKey("a").Add("q").Key(), cache.NewKey("b").Add("q").Key())
	long := string(make([]byte, 10_000))
	assert.Equal(t, key("x", long, "y"), cache.NewKey("a").Add("x").AddBytes([]byte(long)).Add("y").Key())
}

// A large answer is the one's who asked: the others ask for their own, and it goes
// on until the one has it.
func TestLargeAnswersAreNotShared(t *testing.T) {
	r := newRig(t)
	s := newSlow()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	go func() { _, _, err := r.Get(ctx, s.query("q")); errs <- err }()
	running := receive(t, s.started)
	go func() { _, _, err := r.Get(t.Context(), s.query("q")); errs <- err }()
	s.release <- cache.ErrLarge
	s.release <- cache.ErrLarge // for a second query, should the other have come too late
	require.ErrorIs(t, receive(t, errs), cache.ErrLarge)
	require.ErrorIs(t, receive(t, errs), cache.ErrLarge)
	require.NoError(t, running.Err(), "the rest of the answer is still read")
	cancel()
	receive(t, running.Done())
	require.LessOrEqual(t, s.runs.Load(), int32(2))
	require.NoError(t, r.Close(t.Context()))
}
