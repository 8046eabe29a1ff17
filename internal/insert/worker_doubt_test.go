package insert_test

import (
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
	"github.com/wavehouse/wavehouse/internal/record"
)

// A code that no list names says nothing about the rows, as long as nothing else
// of the table passes: they wait, however often they fail.
func TestRowsThatFailWithAnUnknownCodeWait(t *testing.T) {
	t.Parallel()
	var heal atomic.Bool
	s := &sink{name: "ch", fail: func(statement) error {
		if heal.Load() {
			return nil
		}
		return exception(clickhouse.ClassUnknown, 1000, "POCO exception")
	}}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 4)))
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	waitFor(t, "many failures", func() bool { return len(s.seen()) > 25 })
	assert.Empty(t, r.letters(birch, "pages"))
	heal.Store(true)
	r.settled(birch)
	assertSameRows(t, ingesttest.Rows(0, 4), s.rows())
	assert.Empty(t, r.letters(birch, "pages"))
}

// The one row that fails with it while others of its table pass is parked, and
// holds none of them up.
func TestARowThatAloneFailsWithAnUnknownCodeIsParked(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(i statement) error {
		for _, row := range i.rows {
			if row == ingesttest.Line("7") || row == ingesttest.Line("21") {
				return exception(clickhouse.ClassUnknown, 4242, "an exception of a later release")
			}
		}
		return nil
	}}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 30)))
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	waitFor(t, "the others to be written", func() bool { return len(s.rows()) == 28 })
	for n, end := 30, time.Now().Add(90*time.Second); len(r.letters(birch, "pages")) < 2; n++ {
		require.True(t, time.Now().Before(end), "others pass, and the rows are not parked")
		r.send(ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line(fmt.Sprint(n))))
	}
	r.settled(birch)
	letters := r.letters(birch, "pages")
	require.Len(t, letters, 2)
	for _, l := range letters {
		assert.Equal(t, "4242", l.Code)
		assert.Contains(t, []string{ingesttest.Line("7"), ingesttest.Line("21")}, letterRow(t, l))
	}
}

// Dead letters that are full make refused rows wait: what was accepted is never
// dropped to make room.
func TestFullDeadLettersMakeRefusedRowsWait(t *testing.T) {
	t.Parallel()
	var heal atomic.Bool
	s := &sink{name: "ch", fail: func(statement) error {
		if heal.Load() {
			return nil
		}
		return refusedError()
	}}
	r := newRig(t).open()
	require.NoError(t, r.broker.SetBudget(t.Context(), birch, 1<<20))
	for i := range 20 {
		r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(100*i, 100*(i+1))))
	}
	r.start(func(o *insert.WorkerOptions) {
		o.Pool, o.Settings = pool(s), served(insert.Flush{MaxRows: 100, MaxWait: 1}, true)
	})
	waitFor(t, "dead letters to be full", func() bool { return strings.Contains(r.logs.String(), "they stay in the queue") })
	assert.Positive(t, r.pending(birch))
	parked := r.letters(birch, "pages")
	require.NotEmpty(t, parked)
	assert.Less(t, len(parked), 2000)
	heal.Store(true)
	store, err := r.broker.DeadLetters(birch)
	require.NoError(t, err)
	discarded, err := store.DiscardThrough(t.Context(), "pages", parked[len(parked)-1].ID)
	require.NoError(t, err)
	r.settled(birch)
	assert.Equal(t, 2000, discarded+len(r.letters(birch, "pages"))+len(s.rows()), "each row is written, parked, or discarded by hand")
}
