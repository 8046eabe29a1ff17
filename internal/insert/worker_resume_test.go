package insert_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// window is a ClickHouse whose table remembers the tokens of INSERTs.
type window struct {
	sink
	mu     sync.Mutex
	tokens map[string][]string
	twice  []string
}

func newWindow() *window {
	w := &window{sink: sink{name: "ch"}, tokens: map[string][]string{}}
	return w
}

// Insert drops a repeat, as ClickHouse does whatever its rows are: they must
// be those of the first.
func (w *window) Insert(ctx context.Context, r clickhouse.Request) error {
	token := r.Settings["insert_deduplication_token"]
	var rows []string
	err := w.sink.Insert(ctx, r)
	all := w.seen()
	rows = all[len(all)-1].rows
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return err
	}
	if before, known := w.tokens[token]; known {
		w.twice = append(w.twice, rows...)
		if !slices.Equal(before, rows) {
			return fmt.Errorf("token of %d rows is repeated with %d others", len(before), len(rows))
		}
	}
	w.tokens[token] = rows
	return nil
}

// table is what the table holds: what was stored, less what was dropped.
func (w *window) table() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := w.rows()
	for _, row := range w.twice {
		if n := slices.Index(rows, row); n >= 0 {
			rows = slices.Delete(rows, n, n+1)
		}
	}
	return rows
}

// lostAfter is an inserter whose answers are lost from the nth on, after the
// rows are stored, until the worker stops.
type lostAfter struct {
	*window
	n    int64
	seen atomic.Int64
}

func (l *lostAfter) Insert(ctx context.Context, r clickhouse.Request) error {
	n := l.seen.Add(1)
	err := l.window.Insert(ctx, r)
	if err == nil && n >= l.n {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// drain is time for all but an INSERT that has no answer to end in order, on a slow
// disk, too.
const drain = 500 * time.Millisecond

func pagesOf(from, to int) string {
	var b strings.Builder
	for n := from; n < to; n++ {
		fmt.Fprintf(&b, "{\"event_id\":\"%d\",\"page\":\"/%d\"}\n", n, n)
	}
	return b.String()
}

// TestARestartRepeatsTheLastInsertUnchanged: a process ends while it waits for
// the answer to an INSERT. The next one has other flush settings and more rows
// to write.
func TestARestartRepeatsTheLastInsertUnchanged(t *testing.T) {
	t.Parallel()
	db := newWindow()
	r := newRig(t).open()
	lost := &lostAfter{window: db, n: 2}
	r.start(func(o *insert.WorkerOptions) {
		o.Pool, o.DrainTimeout = pool(lost), drain
		o.Settings = served(insert.Flush{MaxRows: 7, MaxWait: 5 * time.Millisecond}, true)
	})
	for n := range 10 {
		r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, pagesOf(3*n, 3*n+3)))
	}
	waitFor(t, "an INSERT without an answer", func() bool { return lost.seen.Load() >= 2 })
	r.stop()
	r.close()
	r.open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, pagesOf(30, 40)))
	r.start(func(o *insert.WorkerOptions) {
		o.Pool, o.ResumePatience = pool(db), 90*time.Second
		o.Settings = served(insert.Flush{MaxRows: 4, MaxWait: 5 * time.Millisecond}, true)
	})
	r.settled(birch)
	rows := db.table()
	assert.Len(t, rows, 40)
	assert.Len(t, distinct(rows), 40, "each row once")
	assert.NotEmpty(t, db.twice, "it was repeated, and known by its token")
}

// TestARestartGoesOnWithinAChunk: a process ends while it looks for the refused
// row of a chunk. Rows that are written for certain are not sent again, those
// of the INSERT under way only as it was.
func TestARestartGoesOnWithinAChunk(t *testing.T) {
	t.Parallel()
	for n := int64(2); n <= 11; n++ {
		t.Run(fmt.Sprint("INSERT ", n), func(t *testing.T) {
			t.Parallel()
			db := newWindow()
			db.fail = func(i statement) error {
				if slices.ContainsFunc(i.rows, func(row string) bool { return strings.Contains(row, `"/13"`) }) {
					return refusedError()
				}
				return nil
			}
			r := newRig(t).open()
			lost := &lostAfter{window: db, n: n}
			r.start(func(o *insert.WorkerOptions) {
				o.Pool, o.DrainTimeout = pool(lost), drain
				o.Settings = served(insert.Flush{MaxRows: 30, MaxWait: time.Second}, true)
			})
			for n := range 5 {
				r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, pagesOf(6*n, 6*n+6)))
			}
			waitFor(t, "an INSERT without an answer, or the end", func() bool {
				return lost.seen.Load() >= n && len(db.rows()) > 0 || r.pending(birch) == 0
			})
			r.stop()
			r.close()
			r.open()
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, pagesOf(30, 40)))
			r.start(func(o *insert.WorkerOptions) { o.Pool, o.ResumePatience = pool(db), 90*time.Second })
			r.settled(birch)
			rows := db.table()
			assert.Len(t, rows, 39)
			assert.Len(t, distinct(rows), 39, "each row once")
			assert.Len(t, r.letters(birch, "pages"), 1)
		})
	}
}

// TestABatchThatIsShortOfAChunkIsWrittenAllTheSame: a batch that cannot be repeated, because
// one of its chunks is gone, is written in another composition.
func TestABatchThatIsShortOfAChunkIsWrittenAllTheSame(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, pagesOf(0, 3)))
	at, err := r.broker.Tail(t.Context(), mq.Topic{Tenant: birch, Table: "pages"})
	require.NoError(t, err)
	epoch, seq := mq.SplitPosition(at)
	require.NoError(t, r.broker.Note(mq.Batch{Topic: mq.Topic{Tenant: birch, Table: "pages"},
		Rows: []mq.Rows{{Chunk: at}, {Chunk: mq.NewPosition(epoch, seq+50)}}}))
	r.start(func(o *insert.WorkerOptions) { o.Pool, o.ResumePatience = pool(s), 50*time.Millisecond })
	r.settled(birch)
	assert.Len(t, s.rows(), 3)
}

func distinct(rows []string) map[string]bool {
	all := map[string]bool{}
	for _, row := range rows {
		all[row] = true
	}
	return all
}
