package insert_test

import (
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/record"
)

var promiseSeed = flag.Uint64("promise.seed", 1, "what TestNothingIsLost draws from; 0 is drawn anew, to search on")

// The promise as a whole, on the real queue and the real ClickHouse: random
// faults on the way, stops and starts, rows that ClickHouse refuses. Every
// accepted row is written or parked, and none twice unless an INSERT's outcome
// was lost or a stop fell into the narrowing down of a chunk.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	c := newReal(t, s, "default")
	c.Exec(t, createPages+`, CONSTRAINT odd CHECK NOT endsWith(event_id, '777')`+pagesEngine)
	seed := *promiseSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-promise.seed=%d", seed)
	choices := newScript(seed)
	faults := []clickhousetest.Fault{
		clickhousetest.ResetBeforeBody(), clickhousetest.ResetAfterBody(), clickhousetest.LoseResponse(),
		clickhousetest.Delay(50 * time.Millisecond),
		clickhousetest.Answer(503, nil, "busy"), answerCode(500, 241, "Memory limit (for query) exceeded"),
		answerCode(500, 242, "Table is in readonly mode"), answerCode(500, 252, "Too many parts"),
	}
	r := newRig(t)
	configure := func(o *insert.WorkerOptions) {
		o.Pool, o.Settings = c.pool, served(insert.Flush{MaxRows: 2000, MaxWait: 10 * time.Millisecond}, true)
		o.BackoffMin, o.BackoffMax = time.Millisecond, 10*time.Millisecond
	}
	var accepted []string
	repeatable := map[string]bool{}
	at := 0
	for deadline := time.Now().Add(6 * time.Second); time.Now().Before(deadline); {
		r.start(configure)
		var senders sync.WaitGroup
		for range 4 {
			from, n := at, 1+choices.next(600)
			at += n
			accepted = append(accepted, numbers(from, from+n)...)
			c.proxy.Next(faults[choices.next(len(faults))], clickhousetest.Pass(), clickhousetest.Pass())
			senders.Go(func() {
				result, err := r.gate.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(from, from+n)))
				assert.NoError(t, err)
				assert.Equal(t, n, result.Succeeded)
			})
		}
		senders.Wait()
		time.Sleep(time.Duration(choices.next(60)) * time.Millisecond) // a stop at any moment
		r.stop()
		for _, row := range r.cutShort(rowsOf(c.ids(t, "pages")), nil) {
			repeatable[row] = true
		}
		r.close()
	}
	c.proxy.Set(clickhousetest.Pass())
	r.start(configure)
	r.settled(birch)
	assertAllThere(t, c, r, accepted, repeatable)
}

func rowsOf(ids []string) []string {
	var rows []string
	for _, id := range ids {
		rows = append(rows, ingesttest.Line(id))
	}
	return rows
}

// assertAllThere holds the promise against what ClickHouse and the dead letters
// have.
func assertAllThere(t *testing.T, c *real, r *rig, accepted []string, repeatable map[string]bool) {
	t.Helper()
	count := map[string]int{}
	for _, id := range c.ids(t, "pages") {
		count[id]++
	}
	for _, l := range r.letters(birch, "pages") {
		row := letterRow(t, l)
		id := strings.TrimSuffix(strings.TrimPrefix(row, `{"event_id":"`), `","page":"/"}`)
		assert.True(t, strings.HasSuffix(id, "777"), "row %s was parked for no reason of its own: %s", id, l.Error)
		count[id]++
	}
	unsure := c.unsure()
	for _, id := range accepted {
		n := count[id]
		require.Positive(t, n, "row %s is lost", id)
		require.True(t, n == 1 || unsure[id] || repeatable[ingesttest.Line(id)], "row %s is there %d times", id, n)
	}
	assert.Len(t, count, len(accepted))
}

// unsure are the rows of INSERTs that were sent more than once: the outcome of
// the first was not known to the worker.
func (c *real) unsure() map[string]bool {
	sent := map[string]int{}
	bodies := map[string][]byte{}
	for _, r := range c.proxy.Requests() {
		if token := r.Query.Get("insert_deduplication_token"); token != "" {
			sent[token]++
			bodies[token] = r.Body
		}
	}
	ids := map[string]bool{}
	for token, n := range sent {
		if n < 2 {
			continue
		}
		for _, row := range insertedRows("", bodies[token]) {
			id := strings.TrimSuffix(strings.TrimPrefix(row, `{"event_id":"`), `","page":"/"}`)
			ids[id] = true
		}
	}
	return ids
}
