package insert_test

import (
	"context"
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
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/record"
)

// The frontier stays in front of rows that are in hand, whatever happens to
// other tables, and reaches the tail once they are written.
func TestProgressFollowsOneTable(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	s := &sink{name: "ch", fail: func(statement) error { <-held; return nil }}
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool = pool(s)
		o.Settings = served(insert.Flush{MaxWait: 10 * time.Millisecond}, true)
	})
	topic := mq.Topic{Tenant: birch, Table: "pages"}
	first := r.progress(topic)
	assert.Equal(t, notice.Progress{Quiet: true, Writes: first.Writes}, first, "nothing came yet")

	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	waitFor(t, "the INSERT to begin", func() bool { return !r.progress(topic).Quiet })
	busy := r.progress(topic)
	assert.NotEqual(t, first.Writes, busy.Writes)
	assert.False(t, busy.Since.IsZero())
	assert.True(t, busy.Since.Before(time.Now()), "rows that were taken then are not written")
	since := r.progress(mq.Topic{Tenant: birch, Table: "others"}).Since
	assert.Equal(t, busy.Since, since, "what was stored behind the newest chunk is newer than that")
	tail, err := r.broker.Tail(t.Context(), mq.Topic{Tenant: birch, Table: "pages"})
	require.NoError(t, err)
	assert.True(t, busy.Frontier.Before(tail), "rows in hand are not written")

	close(held)
	waitFor(t, "the frontier to reach the tail", func() bool {
		p := r.progress(topic)
		return p.Quiet && p.Frontier == tail
	})
	other := mq.Topic{Tenant: birch, Table: "others"}
	assert.Equal(t, tail, r.progress(other).Frontier, "nothing of another table is outstanding up to there")
}

// Rows that ClickHouse keeps refusing hold the frontier back, and rows that
// are written meanwhile make it unquiet.
func TestProgressOfARowThatIsKept(t *testing.T) {
	t.Parallel()
	var refusing atomic.Bool
	refusing.Store(true)
	s := &sink{name: "ch", fail: func(statement) error {
		if refusing.Load() {
			return refusedError()
		}
		return nil
	}}
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool = pool(s)
		o.Settings = served(insert.Flush{MaxWait: 10 * time.Millisecond}, false)
		o.BackoffMin, o.BackoffMax = time.Hour, time.Hour
	})
	topic := mq.Topic{Tenant: birch, Table: "pages"}
	first := r.progress(topic)
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 1)))
	waitFor(t, "the refusal", func() bool { p := r.progress(topic); return p.Quiet && p.Writes != first.Writes })
	kept := r.progress(topic)
	refusing.Store(false)
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(1, 2)))
	waitFor(t, "the second row", func() bool { return len(s.rows()) == 1 })
	waitFor(t, "the flight's end", func() bool { return r.worker.Status().RowsInserted == 1 })
	p := r.progress(topic)
	assert.Equal(t, kept.Frontier, p.Frontier)
	assert.False(t, p.Quiet, "a row beyond the frontier is written")
}

// A chunk some of whose rows are written, and others refused and kept, is not
// behind the frontier, and its written rows are beyond it.
func TestProgressOfAChunkThatIsPartWritten(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(i statement) error {
		for _, row := range i.rows {
			if strings.Contains(row, `"3"`) {
				return refusedError()
			}
		}
		return nil
	}}
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool = pool(s)
		o.Settings = served(insert.Flush{MaxWait: 10 * time.Millisecond}, false)
		o.BackoffMin, o.BackoffMax = time.Hour, time.Hour
	})
	topic := mq.Topic{Tenant: birch, Table: "pages"}
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 6)))
	waitFor(t, "the other rows", func() bool { return r.worker.Status().RowsInserted == 5 })
	tail, err := r.broker.Tail(t.Context(), mq.Topic{Tenant: birch, Table: "pages"})
	require.NoError(t, err)
	p := r.progress(topic)
	assert.False(t, p.Quiet)
	assert.True(t, p.Frontier.Before(tail))
}

// A chunk that was handed back holds the frontier back until it comes again.
func TestProgressOfAChunkThatWasHandedBack(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(i statement) error {
		if strings.Contains(i.sql, "`pages`") {
			return exception(clickhouse.ClassSplittable, 241, "memory limit exceeded")
		}
		return nil
	}}
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool, o.MaxHeldPerTenant = pool(s), 10<<10
		o.BackoffMin, o.BackoffMax = time.Hour, time.Hour
	})
	topic := mq.Topic{Tenant: birch, Table: "pages"}
	one := `{"event_id":"1","page":"` + strings.Repeat("x", 6<<10) + `"}`
	request := ingesttest.Request(ingesttest.Pages(), record.NDJSON, one)
	request.Places = true
	result, err := r.gate.Ingest(t.Context(), request)
	require.NoError(t, err)
	waitFor(t, "the table to be stuck", func() bool { return r.worker.Status().TablesWaiting == 1 })
	others := ingesttest.Pages()
	others.Name = "others"
	r.send(ingesttest.Request(others, record.NDJSON, one))
	waitFor(t, "the other table to get the memory", func() bool { return len(s.rows()) == 1 && r.worker.Status().HeldChunks == 0 })
	assert.True(t, r.progress(topic).Frontier.Before(result.Places[0].Chunk), "the row is in the queue")
	owed, newest := r.progress(topic).Since, r.progress(mq.Topic{Tenant: birch, Table: "others"}).Since
	assert.True(t, owed.Before(newest), "it is older than what is written: %v, %v", owed, newest)
}

// passing is a source that passes by chunks of one table.
type passing struct {
	insert.Source
	table string
}

type passingConsumption struct {
	mq.Consumption
	table string
}

func (p passing) Consume(ctx context.Context, work mq.Work) (mq.Consumption, error) {
	c, err := p.Source.Consume(ctx, work)
	return passingConsumption{c, p.table}, err
}

func (c passingConsumption) Passed(t mq.Topic) bool { return t.Table == c.table }

// Of a table of which chunks were passed by it is not known how far the worker is,
// and of its others it is.
func TestProgressOfATableOfWhichChunksWerePassedBy(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	r := newRig(t).start(func(o *insert.WorkerOptions) {
		o.Pool, o.Broker = pool(s), passing{o.Broker, "pages"}
	})
	others := ingesttest.Pages()
	others.Name = "others"
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 1)))
	r.send(ingesttest.Request(others, record.NDJSON, ingesttest.Lines(1, 2)))
	waitFor(t, "the rows", func() bool { return r.worker.Status().RowsInserted == 2 })
	known := r.progress(mq.Topic{Tenant: birch, Table: "others"})
	assert.NotZero(t, known.Frontier)
	unknown := r.progress(mq.Topic{Tenant: birch, Table: "pages"})
	assert.Equal(t, notice.Progress{Writes: unknown.Writes}, unknown)
}
