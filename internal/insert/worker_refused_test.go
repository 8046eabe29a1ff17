package insert_test

import (
	"context"
	"fmt"
	"strings"
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
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestWorkerParksBadRowsAlone(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]int{{0}, {249}, {499}, {1, 2, 3}, {0, 100, 101, 499}} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			isBad := map[string]bool{}
			for _, i := range bad {
				isBad[ingesttest.Line(fmt.Sprint(i))] = true
			}
			s := &sink{name: "ch", fail: refusing(isBad)}
			r := newRig(t).open()
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 500)))
			r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
			r.settled(birch)
			var good []string
			for _, l := range ingesttest.Rows(0, 500) {
				if !isBad[l] {
					good = append(good, l)
				}
			}
			assertSameRows(t, good, s.rows())
			letters := r.letters(birch, "pages")
			require.Len(t, letters, len(bad))
			for i, l := range letters {
				assert.Equal(t, ingesttest.Line(fmt.Sprint(bad[i])), letterRow(t, l))
				assert.Equal(t, "469", l.Code)
				assert.Contains(t, l.Error, "Constraint is violated")
				assert.Equal(t, bad[i], l.SourceRow)
				assert.False(t, l.Source.IsZero())
				assert.Equal(t, 1, l.Rows)
			}
		})
	}
}

func refusing(bad map[string]bool) func(statement) error {
	return func(i statement) error {
		for _, row := range i.rows {
			if bad[row] {
				return refusedError()
			}
		}
		return nil
	}
}

func TestWorkerEveryRowBad(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(statement) error { return refusedError() }}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 3000)))
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	r.settled(birch)
	assert.Empty(t, s.rows())
	assert.Len(t, r.letters(birch, "pages"), 3000)
	assert.Less(t, len(s.seen()), 3000*14/10, "narrowing down costs more than the rows")
}

// What holds for every row alike is not narrowed down.
func TestTableGone(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(i statement) error {
		if strings.Contains(i.sql, "`temp_t`") {
			return exception(clickhouse.ClassRejected, 60, "Table temp_t does not exist")
		}
		return nil
	}}
	r := newRig(t).open()
	temp := ingesttest.Pages()
	temp.Name = "temp_t"
	r.send(ingesttest.Request(temp, record.NDJSON, ingesttest.Lines(0, 100)))
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 100)))
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	r.settled(birch)
	assert.Len(t, s.rows(), 100)
	letters := r.letters(birch, "temp_t")
	require.Len(t, letters, 100)
	assert.Equal(t, "60", letters[0].Code)
	assert.Len(t, s.seen(), 2)
}

func TestMemoryLimitOnALargeBatch(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(i statement) error {
		if len(i.rows) > 100 {
			return exception(clickhouse.ClassSplittable, 241, "Memory limit exceeded")
		}
		return nil
	}}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 450)))
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	r.settled(birch)
	assertSameRows(t, ingesttest.Rows(0, 450), s.rows())
	assert.Empty(t, r.letters(birch, "pages"))
	assert.LessOrEqual(t, len(s.seen()), 20)
}

// A single row that is too much is kept: the limit may be the server's of the
// moment.
func TestWorkerSingleRowTooMuchIsKept(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	s.fail = func(i statement) error {
		if i.n <= 3 {
			return exception(clickhouse.ClassSplittable, 241, "Memory limit exceeded")
		}
		return nil
	}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("1")))
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	r.settled(birch)
	assert.Len(t, s.rows(), 1)
	assert.Empty(t, r.letters(birch, "pages"))
}

// The column's type changed after the rows were encoded: they are rebuilt for the
// type it has, and a value that does not fit it is parked as it was encoded.
func TestWorkerRebuildsRowsWhenTypesChanged(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(i statement) error {
		if i.n == 1 {
			return exception(clickhouse.ClassRejected, 117, "Type of 'n' must be Int32, not Int64")
		}
		return nil
	}}
	now := record.Compile("pages", []record.Column{
		{Name: "event_id", Type: "String", Position: 1}, {Name: "page", Type: "String", Position: 2}, {Name: "n", Type: "Int32", Position: 3},
	}, time.UTC)
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, `[{"event_id":"1","page":"/","n":1},{"event_id":"2","page":"/","n":3000000000},{"event_id":"3","page":"/","n":3}]`))
	r.start(func(o *insert.WorkerOptions) {
		o.Pool = pool(s)
		o.Table = func(context.Context, mq.Topic) (*record.Table, error) { return now, nil }
	})
	r.settled(birch)
	assertSameRows(t, []string{`{"event_id":"1","page":"/","n":1}`, `{"event_id":"3","page":"/","n":3}`}, s.rows())
	letters := r.letters(birch, "pages")
	require.Len(t, letters, 1)
	assert.Equal(t, `{"event_id":"2","page":"/","n":3000000000}`, letterRow(t, letters[0]), "parked as it was encoded")
	assert.Equal(t, `column n: 3000000000 is out of the range of Int32`, letters[0].Error)
	assert.Equal(t, record.CodeOutOfRange, letters[0].Code)
}

// Where nothing may be parked refused rows are kept, and block nothing else.
func TestWorkerKeepsRefusedRowsWhenNothingMayBeParked(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	bad := refusing(map[string]bool{ingesttest.Line("3"): true, ingesttest.Line("7"): true})
	s := &sink{name: "ch", fail: func(i statement) error {
		if refuse.Load() {
			return bad(i)
		}
		return nil
	}}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	r.start(func(o *insert.WorkerOptions) {
		o.Pool, o.Settings = pool(s), served(insert.Flush{MaxWait: 10 * time.Millisecond}, false)
	})
	waitFor(t, "the good rows", func() bool { return len(s.rows()) == 8 })
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(10, 20)))
	waitFor(t, "later rows", func() bool { return len(s.rows()) == 18 })
	waitFor(t, "the good rows' chunk to be let go", func() bool { return r.pending(birch) == 1 })
	assert.Empty(t, r.letters(birch, "pages"))
	refuse.Store(false)
	r.settled(birch)
	assertSameRows(t, ingesttest.Rows(0, 20), s.rows())
}

func TestWorkerRowsWithoutAPool(t *testing.T) {
	t.Parallel()
	none := func(tenant.ID) (insert.Inserter, error) { return nil, clickhouse.ErrNoPool }
	t.Run("not served: parked", func(t *testing.T) {
		r := newRig(t).open()
		r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 300)))
		r.start(func(o *insert.WorkerOptions) {
			o.Pool = none
			o.Settings = func(tenant.ID, string) insert.TableSettings { return insert.TableSettings{} }
		})
		r.settled(birch)
		letters := r.letters(birch, "pages")
		require.Len(t, letters, 300)
		assert.Equal(t, "tenant.not_served", letters[0].Code)
	})
	t.Run("served: parked after the grace", func(t *testing.T) {
		r := newRig(t).open()
		r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
		r.start(func(o *insert.WorkerOptions) { o.Pool, o.NoPoolGrace = none, 100*time.Millisecond })
		r.settled(birch)
		letters := r.letters(birch, "pages")
		require.Len(t, letters, 10)
		assert.Equal(t, "clickhouse.no_pool", letters[0].Code)
	})
	t.Run("served, late: written", func(t *testing.T) {
		s := &sink{name: "ch"}
		var asked atomic.Int32
		r := newRig(t).open()
		r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
		r.start(func(o *insert.WorkerOptions) {
			o.Settings = served(insert.Flush{MaxWait: time.Millisecond}, false)
			o.Pool = func(tenant.ID) (insert.Inserter, error) {
				if asked.Add(1) < 4 {
					return nil, clickhouse.ErrNoPool
				}
				return s, nil
			}
		})
		r.settled(birch)
		assertSameRows(t, ingesttest.Rows(0, 10), s.rows())
	})
}

// parkingFails is a queue whose dead letters fail at first.
type parkingFails struct {
	insert.Source
	left atomic.Int32
}

func (p *parkingFails) Park(ctx context.Context, letters ...mq.DeadLetter) error {
	if p.left.Add(-1) >= 0 {
		return fmt.Errorf("dead letters: %w", mq.ErrUnavailable)
	}
	return p.Source.Park(ctx, letters...)
}

func TestWorkerParksBeforeItAcknowledges(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: refusing(map[string]bool{ingesttest.Line("3"): true})}
	r := newRig(t).open()
	source := &parkingFails{Source: r.broker}
	source.left.Store(3)
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 5)))
	r.start(func(o *insert.WorkerOptions) { o.Broker, o.Pool = source, pool(s) })
	r.settled(birch)
	assert.Len(t, r.letters(birch, "pages"), 1)
	assert.Len(t, s.rows(), 4)
	assert.Negative(t, source.left.Load())
}

// Once a row could be parked after all, the table's other rows go on: those of
// another column set are the batch's next INSERT.
func TestWorkerGoesOnAfterParkingFailed(t *testing.T) {
	t.Parallel()
	other := func(id string) string { return fmt.Sprintf(`{"event_id":%q,"page":"/","n":1}`, id) }
	s := &sink{name: "ch", fail: refusing(map[string]bool{ingesttest.Line("3"): true, other("3"): true})}
	r := newRig(t).open()
	source := &parkingFails{Source: r.broker}
	source.left.Store(1)
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 5)))
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, other("2")+"\n"+other("3")+"\n"+other("4")))
	r.start(func(o *insert.WorkerOptions) { o.Broker, o.Pool = source, pool(s) })
	r.settled(birch)
	assert.Len(t, r.letters(birch, "pages"), 2)
	assert.Len(t, s.rows(), 6)
	assert.Negative(t, source.left.Load())
}

func (b brokenSource) Park(context.Context, ...mq.DeadLetter) error { return nil }
