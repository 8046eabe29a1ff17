package harness

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Load posts rows with unique ids, singly and in batches, from several
// clients, and remembers which were answered as accepted. Rows whose answer
// never came may or may not be stored.
type Load struct {
	url   func() string
	table string

	stop    chan struct{}
	clients sync.WaitGroup
	next    atomic.Int64
	posted  []atomic.Int64 // by client

	mu       sync.Mutex
	answered map[string]bool
	statuses map[int]int
}

// CreateLoadTable makes the table that a Load writes to.
func CreateLoadTable(t testing.TB, c *ClickHouse, table string) {
	t.Helper()
	c.Must(t, "CREATE TABLE "+table+" (id String, note String DEFAULT '') ENGINE = MergeTree ORDER BY id")
}

// StartLoad begins; url is asked anew for each request, because a restarted
// server has another port.
func StartLoad(url func() string, table string, clients int) *Load {
	l := &Load{url: url, table: table, stop: make(chan struct{}), posted: make([]atomic.Int64, clients), answered: map[string]bool{}, statuses: map[int]int{}}
	for i := range clients {
		l.clients.Add(1)
		go l.client(i)
	}
	return l
}

// Stop ends the clients and waits for them.
func (l *Load) Stop() {
	close(l.stop)
	l.clients.Wait()
}

// Turn waits until every request is over that is under way now. Those that follow
// asked for the url after the call.
func (l *Load) Turn(t testing.TB, within time.Duration) {
	t.Helper()
	for i := range l.posted {
		before := l.posted[i].Load()
		Eventually(t, within, func() error {
			if l.posted[i].Load() == before {
				return fmt.Errorf("client %d still waits for an answer", i)
			}
			return nil
		})
	}
}

// Answered is how many rows were accepted so far.
func (l *Load) Answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.answered)
}

// Statuses counts the answers by status.
func (l *Load) Statuses() map[int]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make(map[int]int, len(l.statuses))
	for status, n := range l.statuses {
		counts[status] = n
	}
	return counts
}

func (l *Load) client(i int) {
	defer l.clients.Done()
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		rows := 1
		if i%2 == 1 {
			rows = 50
		}
		taken := l.post(client, rows)
		l.posted[i].Add(1)
		if !taken {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// post sends rows and notes the answer; it is false when they were not taken.
func (l *Load) post(client *http.Client, rows int) bool {
	ids := make([]string, rows)
	var body strings.Builder
	for i := range ids {
		ids[i] = fmt.Sprintf("r%d", l.next.Add(1))
		fmt.Fprintf(&body, "{\"id\":%q,\"note\":%q}\n", ids[i], strings.Repeat("n", 100))
	}
	response, err := client.Post(l.url()+"/v1/ingest?table="+l.table, "application/x-ndjson", strings.NewReader(body.String()))
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[response.StatusCode]++
	if response.StatusCode != http.StatusOK {
		return false
	}
	for _, id := range ids {
		l.answered[id] = true
	}
	return true
}

// Account waits until every answered row is in the table and returns how many
// answered ids are there more than once.
func (l *Load) Account(t testing.TB, c *ClickHouse, within time.Duration) (repeated int) {
	t.Helper()
	var missing []string
	Eventually(t, within, func() error {
		stored := map[string]int{}
		for line := range strings.Lines(c.Must(t, "SELECT id, count() FROM "+l.table+" GROUP BY id FORMAT TSV")) {
			var id string
			var n int
			_, err := fmt.Sscan(line, &id, &n)
			require.NoError(t, err)
			stored[id] = n
		}
		missing, repeated = nil, 0
		l.mu.Lock()
		defer l.mu.Unlock()
		for id := range l.answered {
			switch n := stored[id]; {
			case n == 0:
				missing = append(missing, id)
			case n > 1:
				repeated++
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%d of %d answered rows are missing, such as %s", len(missing), len(l.answered), missing[0])
		}
		return nil
	})
	return repeated
}

// AnsweredIDs are the ids of the rows that were accepted so far.
func (l *Load) AnsweredIDs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]string, 0, len(l.answered))
	for id := range l.answered {
		ids = append(ids, id)
	}
	return ids
}
