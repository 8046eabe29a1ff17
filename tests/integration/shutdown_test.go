package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writers post rows with ids of their own until stopped, and remember those
// that were taken. A request whose answer did not come is not repeated.
type writers struct {
	client *http.Client
	url    atomic.Pointer[string]
	stop   atomic.Bool
	wait   sync.WaitGroup

	mu    sync.Mutex
	taken map[string]bool
}

func startWriters(s *server, n int) *writers {
	w := &writers{client: &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}, taken: map[string]bool{}}
	w.follow(s)
	for i := range n {
		w.wait.Go(func() { w.write(i) })
	}
	s.t.Cleanup(w.end)
	return w
}

// follow sends to where the server listens now.
func (w *writers) follow(s *server) {
	url := s.url
	w.url.Store(&url)
}

func (w *writers) end() {
	w.stop.Store(true)
	w.wait.Wait()
	w.client.CloseIdleConnections()
}

func (w *writers) write(writer int) {
	for i := 0; !w.stop.Load(); i++ {
		id := fmt.Sprintf("w%d-%d", writer, i)
		response, err := w.client.Post(*w.url.Load()+"/v1/ingest?table=pages", "application/json", strings.NewReader(`{"event_id":"`+id+`","page":"/"}`))
		if err != nil {
			time.Sleep(5 * time.Millisecond) // between two runs of the server
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			w.mu.Lock()
			w.taken[id] = true
			w.mu.Unlock()
		}
	}
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.taken)
}

func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	// An INSERT that a stop does not wait for is sent again; one that is slow must not
	// be one of those.
	s := start(t, options{env: []string{"WH_SERVER_SHUTDOWN_TIMEOUT=2m"}}, pagesTable)
	w := startWriters(s, 4)
	for range 3 {
		before := w.count()
		s.eventually(func() string { return unless(w.count() > before+100, "the writers get nothing through") })
		s.stop()
		s.run()
		w.follow(s)
	}
	w.end()
	s.eventually(func() string {
		stored := map[string]int{}
		for _, row := range s.ch.Rows(t, "SELECT event_id FROM pages") {
			stored[row[0]]++
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for id := range w.taken {
			if stored[id] == 0 {
				return unless(false, id+" was taken and is not stored")
			}
		}
		return ""
	})
	assert.Equal(t, s.ch.Count(t, "pages"), s.distinct(), "none is stored twice")
	assert.Zero(t, s.parked())
}

// A stop does not wait for a ClickHouse that hangs, and loses nothing.
func TestStopWhileClickHouseHangs(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Hang()
	s.o.proxy.Cut()
	s.accept("pages", lines("h", 500))
	s.eventually(func() string { return unless(s.o.proxy.Accepted() > 0, "no INSERT is on its way") })
	s.stop()
	require.Zero(t, s.ch.Count(t, "pages"))
	s.o.proxy.Pass(t)
	s.run()
	s.stored("pages", 500)
	assert.Equal(t, 500, s.distinct())
	assert.Zero(t, s.parked())
}
