package insert_test

import (
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
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// A queue that holds more than its dead letters may: nothing is dropped when its
// tenant goes, and what had no room is written once it is back.
func TestWorkerDropsNothingOfATenantThatIsGone(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	var back atomic.Bool
	r := newRig(t).open()
	require.NoError(t, r.broker.SetBudget(t.Context(), birch, 1<<20))
	for i := range 20 {
		r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(100*i, 100*(i+1))))
	}
	served := served(insert.Flush{MaxWait: 1}, true)
	r.start(func(o *insert.WorkerOptions) {
		o.Pool = func(tenant.ID) (insert.Inserter, error) {
			if back.Load() {
				return s, nil
			}
			return nil, clickhouse.ErrNoPool
		}
		o.Settings = func(id tenant.ID, table string) insert.TableSettings {
			if back.Load() {
				return served(id, table)
			}
			return insert.TableSettings{Park: true, Flush: insert.Flush{MaxRows: 100}}
		}
	})
	waitFor(t, "dead letters to be full", func() bool { return strings.Contains(r.logs.String(), "they stay in the queue") })
	parked := len(r.letters(birch, "pages"))
	assert.Less(t, parked, 2000)
	assert.Positive(t, r.pending(birch))
	back.Store(true)
	r.settled(birch)
	assert.Equal(t, 2000, len(s.rows())+len(r.letters(birch, "pages")), "each row is written or parked")
}

// A tenant that was rejected a moment ago keeps its rows in the queue; when the
// grace is over they are parked.
func TestRowsOfATenantThatMayComeBackWait(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch"}
	var served, over atomic.Bool
	var asked atomic.Int64
	r := newRig(t).open()
	r.start(func(o *insert.WorkerOptions) {
		o.NoPoolGrace = time.Millisecond
		o.Pool = func(tenant.ID) (insert.Inserter, error) {
			if served.Load() {
				return s, nil
			}
			asked.Add(1)
			return nil, clickhouse.ErrNoPool
		}
		o.Settings = func(tenant.ID, string) insert.TableSettings {
			return insert.TableSettings{Served: served.Load(), Park: true, Waits: !over.Load(), Flush: insert.Flush{MaxWait: time.Millisecond}}
		}
	})
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
	waitFor(t, "several attempts", func() bool { return asked.Load() > 5 })
	assert.Empty(t, r.letters(birch, "pages"))
	served.Store(true)
	r.settled(birch)
	assert.Len(t, s.rows(), 10)
	served.Store(false)
	over.Store(true)
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(10, 20)))
	waitFor(t, "the letters", func() bool { return len(r.letters(birch, "pages")) == 10 })
}
