package insert_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/record"
)

// Rows whose INSERT may have succeeded stay with the worker, however much their
// memory is wanted: only the same INSERT again is recognised as a repeat. Rows
// of which none can be written are handed back.
func TestRowsThatMayBeWrittenAreNotHandedBack(t *testing.T) {
	for name, uncertain := range map[string]bool{"the answer was lost": true, "the table has no memory": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var well atomic.Bool
			var tries atomic.Int64
			s := &sink{name: "ch"}
			s.fail = func(i statement) error {
				switch {
				case well.Load() || !strings.Contains(i.sql, "`pages`"):
					return nil
				case tries.Add(1) == 1 && uncertain:
					return unreachable() // whether it was stored is not known
				}
				return exception(clickhouse.ClassSplittable, 241, "memory limit exceeded")
			}
			r := newRig(t).open()
			r.start(func(o *insert.WorkerOptions) {
				o.Pool, o.MaxHeldPerTenant = pool(s), 10<<10
			})
			one := `{"event_id":"1","page":"` + strings.Repeat("x", 6<<10) + `"}`
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, one))
			waitFor(t, "the table to be stuck", func() bool { return tries.Load() >= 3 })
			others := ingesttest.Pages()
			others.Name = "others"
			r.send(ingesttest.Request(others, record.NDJSON, one))
			if !uncertain {
				waitFor(t, "the other table to get the memory", func() bool { return len(s.rows()) == 1 })
				assert.Positive(t, r.acks.backOf("pages"))
				well.Store(true)
				r.settled(birch)
				return
			}
			waitFor(t, "the other table to want memory", func() bool { return r.worker.Status().HeldChunks == 2 || r.acks.backOf("pages") > 0 })
			from := tries.Load()
			waitFor(t, "more attempts", func() bool { return tries.Load() > from+3 || r.acks.backOf("pages") > 0 })
			assert.Zero(t, r.acks.backOf("pages"))
			well.Store(true)
			r.settled(birch)
			tokens := map[string]bool{}
			for _, i := range s.seen() {
				if strings.Contains(i.sql, "`pages`") {
					tokens[i.settings["insert_deduplication_token"]] = true
				}
			}
			assert.Len(t, tokens, 1, "the INSERT is repeated unchanged")
		})
	}
}

// Refused rows are tried again together, and may be written as soon as one of them
// may be: ClickHouse then writes fewer rows than were sent, and is not blamed.
func TestKeptRowsAreARepeatWhenOneOfThemIs(t *testing.T) {
	t.Parallel()
	var well, lost atomic.Bool
	s := &sink{name: "ch"}
	s.fail = func(i statement) error {
		switch {
		case well.Load():
			return nil
		case len(i.rows) == 1 && i.rows[0] == ingesttest.Line("1") && !lost.Swap(true):
			return unreachable()
		}
		return refusedError()
	}
	r := newRig(t).open()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 2)))
	r.start(func(o *insert.WorkerOptions) {
		o.Pool, o.Settings = pool(s), served(insert.Flush{MaxWait: 20 * time.Millisecond}, false)
	})
	waitFor(t, "the rows to be tried again", func() bool { seen := s.seen(); return lost.Load() && len(seen) > 8 && len(seen[len(seen)-1].rows) == 2 })
	well.Store(true)
	r.settled(birch)
	repeats, uncertain := 0, false
	for _, i := range s.seen() {
		if len(i.rows) == 2 {
			assert.Equal(t, uncertain, i.repeat)
			if i.repeat {
				repeats++
			}
		}
		uncertain = uncertain || i.rows[len(i.rows)-1] == ingesttest.Line("1") && len(i.rows) == 1
	}
	assert.Positive(t, repeats)
}
