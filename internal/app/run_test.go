package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
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

// unfinished is a body of blanks, up to a record that comes last.
type unfinished struct{ finish <-chan struct{} }

func (b *unfinished) Read(p []byte) (int, error) {
	select {
	case <-b.finish:
		return copy(p, `{"n":1}`), io.EOF
	case <-time.After(100 * time.Millisecond): // at the pace that is asked of a body
		return copy(p, bytes.Repeat([]byte{' '}, 16<<10)), nil
	}
}

// Each stage of a stop has what it needs: a request that has begun is answered 200
// while nobody else is let in and operations still tell why, its row is written,
// and that is told.
func TestAStopTakesNothingFromWhatHasBegun(t *testing.T) {
	server := clickhousetest.Start(t)
	server.Exec(t, "CREATE TABLE pages (n UInt64) ENGINE = MergeTree ORDER BY n")
	settings := writeSettings(t, `{"clickhouse":{"addr":"`+server.Host+`","http_port":`+strconv.Itoa(server.HTTPPort)+
		`,"database":"`+server.Database+`"},"ingest":{"flush":{"max_wait":"1m"}}}`)
	port := freePort(t)
	started, ended := make(chan net.Addr, 1), make(chan error, 1)
	a := newApp(t, settings, t.TempDir(), port, slog.New(slog.DiscardHandler), started, allRoles...)
	var told atomic.Int64
	a.notices.Listen(func(all []notice.Notice) {
		for _, n := range all {
			if w, ok := n.(notice.Written); ok {
				told.Add(int64(w.Inserted))
			}
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go func() { ended <- a.Run(ctx) }()
	addr := (<-started).String()
	ops := &process{t: t, url: "http://127.0.0.1:" + strconv.Itoa(port)}
	require.Eventually(t, func() bool { return ops.statuses(ops.url, "/readyz")["/readyz"] == http.StatusOK }, time.Minute, 5*time.Millisecond)

	begun, finish, answered := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(begun) }})
	r, err := http.NewRequestWithContext(traced, http.MethodPost, "http://"+addr+"/v1/ingest?table=pages", &unfinished{finish})
	require.NoError(t, err)
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Operator-Key": {"operator-key-of-the-test"}, "Expect": {"100-continue"}}
	go func() {
		client := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute, DisableKeepAlives: true}}
		response, err := client.Do(r)
		if !assert.NoError(t, err) {
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	<-begun
	stop()
	require.Eventually(t, func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, time.Minute, 5*time.Millisecond, "nobody else is let in")
	status, body := ops.ask(ops.url, http.MethodGet, "/readyz", "")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "the server is stopping")
	close(finish)
	assert.Equal(t, http.StatusOK, <-answered)
	require.NoError(t, <-ended)
	assert.Equal(t, 1, server.Count(t, "pages"), "what is accepted last is written")
	assert.EqualValues(t, 1, told.Load(), "what is written last is told")
}
