// Package noticetest is the conformance suite of notice.Bus.
package noticetest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// Subject is one service under test.
type Subject struct {
	// Buses are those of its processes, one or more, none of which runs yet.
	Buses []notice.Bus
	// Reconnect cuts processes off from each other and returns when they are in
	// touch again; nil where nothing can be cut.
	Reconnect func()
}

// patience bounds the wait for what comes.
const patience = 30 * time.Second

// Run runs the suite; open makes a service that nobody else uses.
func Run(t *testing.T, open func(t *testing.T) *Subject) {
	for name, run := range map[string]func(*testing.T, *Subject){
		"everyone hears everything in order": hears,
		"one listener after the other":       inTurn,
		"flush waits for this process":       flush,
		"told before it runs":                early,
		"a slow listener is told of a loss":  slow,
		"questions":                          questions,
		"the end":                            ends,
	} {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
	t.Run("a reconnect is a loss", func(t *testing.T) {
		s := open(t)
		if s.Reconnect == nil {
			require.Len(t, s.Buses, 1, "several processes can be cut off from each other")
			return
		}
		heard := listen(s.Buses)
		start(t, s)
		meet(t, s, heard)
		s.Reconnect()
		for _, h := range heard {
			h.await(t, notice.Lost{})
		}
	})
}

func pages() mq.Topic { return mq.Topic{Tenant: "birch", Table: "pages"} }

// written is a notice that can be told from others.
func written(n int) notice.Written {
	return notice.Written{
		Topic: pages(), Inserted: n, Settled: []mq.Position{mq.NewPosition(1, uint64(n))},
		Parked: []notice.ParkedRow{{Chunk: mq.NewPosition(1, uint64(n)), Row: 3, Code: "469", Message: "no"}},
	}
}

// ear keeps what it hears.
type ear struct {
	mu    sync.Mutex
	heard []notice.Notice
}

func (e *ear) hear(all []notice.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, all...)
}

func (e *ear) all() []notice.Notice {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]notice.Notice(nil), e.heard...)
}

// news is what it heard but for losses: a process that pauses is taken to be out of
// touch.
func (e *ear) news() []notice.Notice {
	return slices.DeleteFunc(e.all(), func(n notice.Notice) bool { return n == notice.Notice(notice.Lost{}) })
}

func (e *ear) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = nil
}

func (e *ear) await(t *testing.T, n notice.Notice) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, heard := range e.all() {
			if assert.ObjectsAreEqual(n, heard) {
				return true
			}
		}
		return false
	}, patience, time.Millisecond, "%#v", n)
}

func listen(buses []notice.Bus) []*ear {
	ears := make([]*ear, len(buses))
	for i, b := range buses {
		ears[i] = &ear{}
		b.Listen(ears[i].hear)
	}
	return ears
}

// start runs all buses until the test ends.
func start(t *testing.T, s *Subject) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, b := range s.Buses {
		all.Go(func() { assert.NoError(t, b.Run(ctx)) })
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

func hears(t *testing.T, s *Subject) {
	ears := listen(s.Buses)
	start(t, s)
	meet(t, s, ears)
	last := notice.Process{Instance: "a", Roles: []string{"api"}, Generation: "7", Shards: []string{"0.1"}}
	for i, teller := range s.Buses {
		want := []notice.Notice{notice.Statement{Tenant: "birch", Changed: true}}
		for n := range 100 {
			want = append(want, written(1000*i+n))
		}
		want = append(want, last)
		for _, n := range want {
			teller.Tell(n)
		}
		for _, e := range ears {
			require.Eventually(t, func() bool { return len(e.news()) >= len(want) }, patience, time.Millisecond)
			assert.Equal(t, want, e.news())
			e.forget()
		}
	}
}

// meet returns once every process is heard by all. What is told before may get lost.
func meet(t *testing.T, s *Subject, ears []*ear) {
	t.Helper()
	for i, teller := range s.Buses {
		hello := notice.Process{Instance: "hello", Run: strconv.Itoa(i)}
		for _, e := range ears {
			require.Eventually(t, func() bool {
				teller.Tell(hello)
				return slices.ContainsFunc(e.all(), func(n notice.Notice) bool { return assert.ObjectsAreEqual(hello, n) })
			}, patience, 10*time.Millisecond)
		}
	}
	// What is still on its way comes before the last of each.
	for i, teller := range s.Buses {
		last := notice.Process{Instance: "last", Run: strconv.Itoa(i)}
		teller.Tell(last)
		for _, e := range ears {
			e.await(t, last)
		}
	}
	for _, e := range ears {
		e.forget()
	}
}

func inTurn(t *testing.T, s *Subject) {
	b := s.Buses[0]
	var mu sync.Mutex
	var calls []string
	done := make(chan struct{})
	for _, name := range []string{"first", "second", "third"} {
		b.Listen(func(all []notice.Notice) {
			mu.Lock()
			defer mu.Unlock()
			for range all {
				calls = append(calls, name)
			}
			if name == "third" {
				close(done)
			}
		})
	}
	start(t, s)
	b.Tell(written(1))
	await(t, done)
	assert.Equal(t, []string{"first", "second", "third"}, calls)
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(t, "it did not come to pass")
	}
}

// listenSlowly hears what comes first once it is released.
func listenSlowly(b notice.Bus) (e *ear, entered, release chan struct{}) {
	e, entered, release = &ear{}, make(chan struct{}, 1), make(chan struct{})
	b.Listen(func(all []notice.Notice) {
		select {
		case entered <- struct{}{}:
			<-release
		default:
		}
		e.hear(all)
	})
	return e, entered, release
}

func flush(t *testing.T, s *Subject) {
	b := s.Buses[0]
	e, entered, release := listenSlowly(b)
	start(t, s)
	require.NoError(t, b.Flush(t.Context()), "there is nothing to wait for")
	b.Tell(written(1))
	await(t, entered)
	b.Tell(written(2))
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Flush(short), context.DeadlineExceeded)
	close(release)
	for n := range 50 {
		b.Tell(written(3 + n))
		require.NoError(t, b.Flush(t.Context()))
		assert.Contains(t, e.all(), notice.Notice(written(3+n)))
	}
}

func early(t *testing.T, s *Subject) {
	ears := listen(s.Buses[:1])
	s.Buses[0].Tell(written(1))
	start(t, s)
	ears[0].await(t, written(1))
}

// slow: memory is bounded however slow a listener is, and it learns that it
// missed something, where it missed it.
func slow(t *testing.T, s *Subject) {
	b := s.Buses[0]
	e, entered, release := listenSlowly(b)
	start(t, s)
	large := written(0)
	large.Parked = []notice.ParkedRow{{Message: strings.Repeat("m", 1<<20)}}
	b.Tell(large)
	await(t, entered)
	const told = 100
	for range told {
		b.Tell(large)
	}
	close(release)
	require.NoError(t, b.Flush(t.Context()))
	b.Tell(written(2))
	e.await(t, written(2))
	heard := e.all()
	assert.Less(t, len(heard), told)
	last := slices.IndexFunc(heard, func(n notice.Notice) bool { return assert.ObjectsAreEqual(written(2), n) })
	assert.Equal(t, notice.Lost{}, heard[last-1])
	if len(s.Buses) == 1 { // else another process may be silent for a moment
		assert.NotContains(t, heard[:last-1], notice.Notice(notice.Lost{}))
	}
}

func questions(t *testing.T, s *Subject) {
	owner := s.Buses[len(s.Buses)-1]
	owner.Answer(func(topic mq.Topic) (notice.Progress, bool) {
		return notice.Progress{Frontier: mq.NewPosition(1, 9), Since: time.Unix(1_800_000_000, 5).UTC(), Quiet: true, Writes: 4}, topic == pages()
	})
	start(t, s)
	for i, b := range s.Buses {
		var p notice.Progress
		require.Eventually(t, func() bool {
			var err error
			p, err = b.Progress(t.Context(), pages())
			return err == nil
		}, patience, time.Millisecond, "asked by process %d", i)
		assert.Equal(t, notice.Progress{Frontier: mq.NewPosition(1, 9), Since: time.Unix(1_800_000_000, 5).UTC(), Quiet: true, Writes: 4}, p, "asked by process %d", i)
		_, err := b.Progress(t.Context(), mq.Topic{Tenant: "birch", Table: "others"})
		require.ErrorIs(t, err, notice.ErrNoAnswer)
	}
}

func ends(t *testing.T, s *Subject) {
	b := s.Buses[0]
	var e ear
	b.Listen(e.hear)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	b.Tell(written(1))
	cancel()
	go func() { ended <- b.Run(ctx) }()
	require.NoError(t, <-ended)
	assert.Equal(t, []notice.Notice{written(1)}, e.all(), "what was told before the end is handled")
	b.Tell(written(2))
	require.Error(t, b.Flush(t.Context()), "nobody handles it any more")
}
