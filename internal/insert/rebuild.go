package insert

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// ErrNoTable is WorkerOptions.Table's for a table that is gone.
var ErrNoTable = errors.New("there is no such table")

// rebuild makes rows for the table as it is now of rows for columns that it had.
// Each value is judged by our own codecs, as if it had just been sent: ClickHouse
// would wrap or cut what does not fit. Rows that do not fit are parked or kept.
// It is not changed when the table is still what the rows were written for.
func (f *batch) rebuild(i insertion) (parts []insertion, changed bool) {
	table, err := f.w.o.Table(f.w.work, f.b.topic)
	switch {
	case errors.Is(err, ErrNoTable):
		return nil, false
	case err != nil:
		f.failed(f.b.waits, clickhouse.ClassUnavailable, fmt.Errorf("look up the table, whose types have changed: %w", err))
		return []insertion{i}, true
	}
	for _, s := range i.spans {
		rebuilt, failed := f.rebuildSpan(s, table)
		for _, r := range rebuilt {
			r.uncertain, r.since, r.renewed = i.uncertain, i.since, i.renewed
			changed = changed || r.form.Columns != i.form.Columns || r.form.Format != i.form.Format
			parts = merge(parts, r)
		}
		if len(failed) > 0 {
			changed = true
			for _, r := range failed {
				f.misfit(i.of(s.part(r.row, r.row+1)), r.err)
			}
		}
	}
	return parts, changed
}

// misfitting is a row of a chunk that does not fit the table.
type misfitting struct {
	row int
	err error
}

// rebuildSpan makes an insertion of each column set, of runs of rows.
func (f *batch) rebuildSpan(s span, table *record.Table) (rebuilt []insertion, failed []misfitting) {
	rows := s.c.Chunk
	if err := rows.Decode(); err != nil {
		return nil, []misfitting{{s.from, err}}
	}
	rebuild := table.NewRebuild(rows.Layout, record.DecodeOptions{MissingAsZero: f.settings.MissingAsZero, CutTimes: f.settings.CutTimes})
	for row := s.from; row < s.to; row++ {
		set, data, err := rebuild.Row(rows.Slice(row, row+1))
		var form *chunk.Form
		if err == nil {
			form, err = f.w.chunks.Form(mq.Header{Format: set.Format(), Columns: set.Header()})
		}
		if err != nil {
			failed = append(failed, misfitting{row, err})
			continue
		}
		one := span{c: s.c, from: row, to: row + 1, rebuilt: [][]byte{slices.Clone(data)}}
		rebuilt = merge(rebuilt, insertion{form: form, spans: []span{one}})
	}
	return rebuilt, failed
}

// merge adds an insertion to the one of its form, and its rows to the run of rows
// that they go on.
func merge(all []insertion, more insertion) []insertion {
	for n := range all {
		if all[n].form != more.form {
			continue
		}
		for _, s := range more.spans {
			spans := all[n].spans
			if last := &spans[len(spans)-1]; last.c == s.c && last.to == s.from {
				last.to, last.rebuilt = s.to, append(last.rebuilt, s.rebuilt...)
				continue
			}
			all[n].spans = append(spans, s)
		}
		return all
	}
	return append(all, more)
}

// misfit parks or keeps a row that does not fit the table, as it came.
func (f *batch) misfit(i insertion, err error) {
	if f.settings.Park {
		f.park(i, err)
		return
	}
	f.keep(i, err)
}
