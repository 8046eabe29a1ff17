package insert_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/record"
)

func TestWorkerWritesWhatTheGateTook(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	reg := prometheus.NewRegistry()
	told := make(chan notice.Notice, 1000)
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool, o.Metrics = pool(s), reg
		o.Tell = func(n notice.Notice) { told <- n }
	})
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 2500)))
	r.settled(birch)
	assertSameRows(t, ingesttest.Rows(0, 2500), s.rows())
	tail, err := r.broker.Tail(t.Context(), mq.Topic{Tenant: birch, Table: "pages"})
	require.NoError(t, err)
	inserted := 0
	for settled := false; !settled; {
		n, ok := (<-told).(notice.Written)
		require.True(t, ok)
		assert.Equal(t, mq.Topic{Tenant: birch, Table: "pages"}, n.Topic)
		assert.Empty(t, n.Parked)
		inserted += n.Inserted
		settled = slices.Contains(n.Settled, tail)
	}
	assert.Equal(t, 2500, inserted)
	status := r.worker.Status()
	assert.Zero(t, status.HeldBytes)
	assert.Zero(t, status.HeldChunks)
	assert.True(t, status.OldestUnwritten.IsZero())
	assert.EqualValues(t, 2500, status.RowsInserted)
	assert.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP wavehouse_worker_rows_inserted_total Rows written to ClickHouse.
# TYPE wavehouse_worker_rows_inserted_total counter
wavehouse_worker_rows_inserted_total{table="pages",tenant="birch"} 2500
`), "wavehouse_worker_rows_inserted_total"))
	i := s.seen()[0]
	assert.Equal(t, "INSERT INTO `pages` (`event_id`, `page`) FORMAT RowBinaryWithNamesAndTypes", i.sql)
	assert.Equal(t, "0", i.settings["async_insert"])
	assert.Equal(t, "0", i.settings["input_format_skip_unknown_fields"])
	assert.NotEmpty(t, i.settings["insert_deduplication_token"])
}

// Answers of before the rows are given out of caches until they are told of: that
// does not wait for acknowledgements, nor for the rest of the batch.
func TestRowsAreToldOfAsSoonAsTheyAreStored(t *testing.T) {
	t.Parallel()
	told := make(chan notice.Notice, 100)
	release := make(chan struct{})
	r := newRig(t)
	r.acks.beforeAck = func() { <-release }
	r.start(func(o *insert.WorkerOptions) {
		o.Pool, o.Tell = pool(&sink{name: "ch"}), func(n notice.Notice) { told <- n }
	})
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	first := (<-told).(notice.Written)
	assert.Equal(t, 10, first.Inserted)
	assert.Empty(t, first.Settled, "they are not acknowledged yet")
	assert.Empty(t, told)
	close(release)
	second := (<-told).(notice.Written)
	assert.Zero(t, second.Inserted, "rows are told of once")
	assert.Len(t, second.Settled, 1)
}

func TestWorkerFlushTriggers(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]insert.Flush{
		"rows":  {MaxRows: 10, MaxWait: time.Hour},
		"bytes": {MaxBytes: 100, MaxWait: time.Hour},
		"wait":  {MaxWait: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sink{name: "ch"}
			r := newRig(t).open()
			for i := range 30 {
				r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line(fmt.Sprint(i))))
			}
			r.start(func(o *insert.WorkerOptions) { o.Pool, o.Settings = pool(s), served(f, true) })
			waitFor(t, "a flush and the rest", func() bool { return len(s.rows()) > 0 && r.acks.cameOf("pages") >= 30 })
			r.stop()
			assertSameRows(t, ingesttest.Rows(0, 30), s.rows())
			assert.Less(t, len(s.seen()), 30, "rows were not gathered")
		})
	}
}

// While an INSERT runs no other of its table starts; what arrives makes the
// next batch.
func TestWorkerOneInsertPerTableAtATime(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	s := &sink{name: "ch", fail: func(statement) error {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		running.Add(-1)
		return nil
	}}
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool, o.Settings = pool(s), served(insert.Flush{MaxRows: 1}, true)
	})
	for i := range 50 {
		r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line(fmt.Sprint(i))))
	}
	r.settled(birch)
	assert.EqualValues(t, 1, most.Load())
	assertSameRows(t, ingesttest.Rows(0, 50), s.rows())
}

func TestWorkerOneInsertPerColumnSet(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	r := newRig(t).open()
	for i := range 20 {
		r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, fmt.Sprintf(`[{"event_id":"a%d","page":"/"},{"event_id":"b%d","page":"/","n":1}]`, i, i)))
	}
	r.start(func(o *insert.WorkerOptions) {
		o.Pool, o.Settings = pool(s), served(insert.Flush{MaxRows: 40, MaxWait: time.Hour}, true)
	})
	r.settled(birch)
	assert.Len(t, s.seen(), 2)
	assert.Len(t, s.rows(), 40)
}

// A failure that can heal keeps the batch; it is repeated unchanged, and no row
// is parked.
func TestWorkerRepeatsUnchanged(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		unreachable(), errors.New("nobody knows this one"),
		exception(clickhouse.ClassDenied, 516, "Authentication failed"),
		exception(clickhouse.ClassUnavailable, 252, "Too many parts"),
		exception(clickhouse.ClassRejected, 115, "Unknown setting"),
	} {
		t.Run(err.Error(), func(t *testing.T) {
			s := &sink{name: "ch"}
			s.fail = func(i statement) error {
				if i.n <= 4 {
					return err
				}
				return nil
			}
			r := newRig(t).open()
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 300)))
			r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
			waitFor(t, "the failures to be met", func() bool { return len(s.seen()) >= 3 })
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(300, 400)))
			r.settled(birch)
			assertSameRows(t, ingesttest.Rows(0, 400), s.rows())
			seen := s.seen()
			for _, i := range seen[:5] {
				assert.Equal(t, seen[0].rows, i.rows, "a repeated batch changed")
				assert.Equal(t, seen[0].settings, i.settings)
			}
			assert.Empty(t, r.letters(birch, "pages"))
			assert.Zero(t, r.worker.Status().PoolsWaiting+r.worker.Status().TablesWaiting)
		})
	}
}

func TestWorkerBackoffIsSharedByThePool(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	s := &sink{name: "ch", fail: func(statement) error {
		if down.Load() {
			return unreachable()
		}
		return nil
	}}
	r := newRig(t).open()
	for i := range 10 {
		table := ingesttest.Pages()
		table.Name = fmt.Sprintf("t%d", i)
		r.send(ingesttest.Request(table, record.JSON, ingesttest.Line(fmt.Sprint(i))))
	}
	const window = 200 * time.Millisecond
	began := time.Now()
	r.start(func(o *insert.WorkerOptions) {
		o.Pool = pool(s)
		o.BackoffMin, o.BackoffMax = window, window
	})
	waitFor(t, "some windows to pass", func() bool { return len(s.seen()) >= 14 })
	assert.Equal(t, 1, r.worker.Status().PoolsWaiting)
	assert.Zero(t, r.worker.Status().TablesWaiting)
	// At most ten were under way when it went down, then one a window.
	n := len(s.seen())
	assert.LessOrEqual(t, n, 10+1+int(time.Since(began)/window))
	down.Store(false)
	r.settled(birch)
	assert.Len(t, s.rows(), 10)
}

// A table in trouble of its own delays no other.
func TestWorkerTablesOwnTrouble(t *testing.T) {
	t.Parallel()
	var readOnly atomic.Bool
	readOnly.Store(true)
	s := &sink{name: "ch", fail: func(i statement) error {
		if readOnly.Load() && strings.Contains(i.sql, "`stuck`") {
			return tableOwn(t)
		}
		return nil
	}}
	r := newRig(t).open()
	stuck := ingesttest.Pages()
	stuck.Name = "stuck"
	r.send(ingesttest.Request(stuck, record.JSON, ingesttest.Line("1")))
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	waitFor(t, "the trouble", func() bool { return r.worker.Status().TablesWaiting == 1 })
	r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("2")))
	waitFor(t, "the other table", func() bool { return len(s.rows()) == 1 })
	readOnly.Store(false)
	r.settled(birch)
	assertSameRows(t, ingesttest.Rows(1, 3), s.rows())
}

// tableOwn is a failure that ClickHouse itself reports of one table, as the
// native protocol carries it.
func tableOwn(t *testing.T) error {
	t.Helper()
	err := nativeException(242, "Table is in readonly mode")
	require.True(t, clickhouse.TableOwn(err))
	return err
}

// Random verdicts of every kind, stops and starts included: every accepted row
// is written or parked, and none twice unless an INSERT's outcome was lost.
func TestWorkerLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	unsure := map[string]bool{}
	rounds := newScript(7)
	s := &sink{name: "ch"}
	s.fail = func(i statement) error {
		switch rounds.next(10) {
		case 0:
			return unreachable()
		case 1:
			return exception(clickhouse.ClassSplittable, 241, "Memory limit exceeded")
		case 2:
			return nativeException(242, "Table is in readonly mode")
		}
		for _, row := range i.rows {
			if strings.Contains(row, `13","page`) {
				return refusedError()
			}
		}
		return nil
	}
	s.lost = func(i statement) error {
		if rounds.next(10) != 0 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		for _, row := range i.rows {
			unsure[row] = true
		}
		return &clickhouse.Error{Class: clickhouse.ClassUnavailable, Message: "connection reset"}
	}
	r := newRig(t)
	var accepted []string
	at := 0
	configure := func(o *insert.WorkerOptions) {
		o.Pool, o.Settings = pool(s), served(insert.Flush{MaxRows: 700, MaxWait: 5 * time.Millisecond}, true)
		o.BackoffMin, o.BackoffMax = time.Millisecond, 5*time.Millisecond
	}
	for range 4 {
		r.start(configure)
		for range 20 {
			n := 1 + rounds.next(250)
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(at, at+n)))
			accepted = append(accepted, ingesttest.Rows(at, at+n)...)
			at += n
		}
		r.stop()
		for _, row := range r.cutShort(s.rows(), unsure) {
			unsure[row] = true
		}
		r.close()
	}
	r.start(configure)
	r.settled(birch)
	count := map[string]int{}
	for _, row := range s.rows() {
		count[row]++
	}
	for _, l := range r.letters(birch, "pages") {
		count[letterRow(t, l)]++
	}
	for _, row := range accepted {
		if count[row] == 0 || count[row] > 1 && !unsure[row] {
			t.Fatalf("%s is there %d times, outcome lost: %t", row, count[row], unsure[row])
		}
	}
	assert.Len(t, count, len(accepted))
}
