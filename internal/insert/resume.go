package insert

import (
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// resumption is what the worker before was writing to a table: INSERTs that may
// have succeeded and are repeated unchanged, and rows that are settled already.
// It is guarded by the worker's mutex, and is done with when the table's first
// batch is taken.
type resumption struct {
	inserts [][]mq.Rows
	chunks  map[mq.Position][]mq.Rows // those of either; the settled rows of each
	here    int                       // of the chunks, how many are pending
	until   time.Time                 // when the wait for the others is over
}

// resume reads what was being written of a shard that is assigned.
func (w *Worker) resume(s mq.Shard) map[mq.Topic]*resumption {
	if w.o.Batches == nil {
		return nil
	}
	noted, err := w.o.Batches.Noted(s)
	if err != nil {
		w.o.Logger.Error("what was being written is not known; rows of it may be written twice", "shard", s.Name, "error", err)
	}
	all := make(map[mq.Topic]*resumption)
	for _, b := range noted {
		r := all[b.Topic]
		if r == nil {
			r = &resumption{chunks: make(map[mq.Position][]mq.Rows)}
			all[b.Topic] = r
		}
		if !b.Settled {
			r.inserts = append(r.inserts, b.Rows)
		}
		for _, rows := range b.Rows {
			settled := r.chunks[rows.Chunk]
			if b.Settled {
				settled = append(settled, rows)
			}
			r.chunks[rows.Chunk] = settled
		}
	}
	return all
}

// came notes a chunk of the table that is pending. The others are waited for until
// the moment that the first came with.
func (r *resumption) came(c *held, until time.Time) {
	if r.until.IsZero() {
		r.until = until
	}
	if _, mine := r.chunks[c.pos]; mine {
		r.here++
	}
}

// wait is how long the table waits for more of it: 0 when all are pending, or
// the patience is over.
func (r *resumption) wait(now time.Time) time.Duration {
	if r.here >= len(r.chunks) {
		return 0
	}
	return max(0, r.until.Sub(now))
}

// take makes insertions of those of the pending chunks that it speaks of: the
// INSERTs as they were, and what is left of the chunks. Chunks all of whose rows
// are settled are done; the others are left pending.
func (r *resumption) take(pending []*held) (insertions []insertion, done, left []*held) {
	there := make(map[mq.Position]*held, len(r.chunks))
	for _, c := range pending {
		if _, mine := r.chunks[c.pos]; mine {
			there[c.pos] = c
		} else {
			left = append(left, c)
		}
	}
	taken := make(map[*held][]span)
	for at, settled := range r.chunks {
		if c := there[at]; c != nil {
			for _, rows := range settled {
				taken[c] = append(taken[c], spanOf(c, rows))
			}
		}
	}
	for _, rows := range r.inserts {
		if i, ok := repeated(there, rows); ok {
			insertions = append(insertions, i)
			for _, s := range i.spans {
				taken[s.c] = append(taken[s.c], s)
			}
		}
	}
	var rest []span
	for _, c := range pending {
		if there[c.pos] != c {
			continue
		}
		for _, rows := range r.chunks[c.pos] {
			c.left -= spanOf(c, rows).rows()
		}
		if c.left <= 0 {
			done = append(done, c)
			continue
		}
		if len(taken[c]) > 0 && c.Split() != nil {
			c.left, taken[c] = c.Rows, nil // it is parked as a whole
		}
		rest = append(rest, remaining(c, taken[c])...)
	}
	return append(insertions, byForm(rest)...), done, left
}

// repeated is an INSERT as it was, if all of its chunks are there.
func repeated(there map[mq.Position]*held, rows []mq.Rows) (i insertion, ok bool) {
	i = insertion{uncertain: true, noted: true}
	for _, r := range rows {
		c := there[r.Chunk]
		if c == nil || c.Form == nil || i.form != nil && c.Form != i.form {
			return i, false
		}
		i.form = c.Form
		s := spanOf(c, r)
		if s.rows() < c.Rows && c.Split() != nil {
			return i, false
		}
		i.spans = append(i.spans, s)
	}
	return i, i.form != nil
}

// spanOf is noted rows of a chunk.
func spanOf(c *held, r mq.Rows) span {
	if r.To == 0 {
		r.To = c.Rows
	}
	return span{c: c, from: min(r.From, c.Rows), to: min(r.To, c.Rows)}
}

// remaining is a chunk without spans of it.
func remaining(c *held, taken []span) (rest []span) {
	slices.SortFunc(taken, func(a, b span) int { return a.from - b.from })
	from := 0
	for _, s := range append(taken, span{c: c, from: c.Rows}) {
		if s.from > from {
			rest = append(rest, span{c: c, from: from, to: s.from})
		}
		from = max(from, s.to)
	}
	return rest
}

// byForm makes an insertion of the spans of each form.
func byForm(spans []span) []insertion {
	var all []insertion
	at := make(map[*chunk.Form]int)
	for _, s := range spans {
		i, ok := at[s.c.Form]
		if !ok {
			i = len(all)
			at[s.c.Form] = i
			all = append(all, insertion{form: s.c.Form})
		}
		all[i].spans = append(all[i].spans, s)
	}
	return all
}

// note has the queue keep which rows an INSERT is about to have. One that cannot
// be kept is made all the same: the room that is missing may be what it frees.
func (f *batch) note(i *insertion) {
	if f.w.o.Batches == nil || i.noted {
		return
	}
	i.noted = true
	f.noteRows(i.spans, false)
}

// noteSettled has the queue keep which rows of chunks are done with, where some
// of those chunks are not.
func (f *batch) noteSettled(spans []span) {
	if f.w.o.Batches != nil && slices.ContainsFunc(spans, func(s span) bool { return s.c.left > 0 }) {
		f.noteRows(spans, true)
	}
}

func (f *batch) noteRows(spans []span, settled bool) {
	rows := make([]mq.Rows, len(spans))
	for n, s := range spans {
		rows[n] = mq.Rows{Chunk: s.c.pos, From: s.from, To: s.to}
		if s.from == 0 && s.to == s.c.Rows {
			rows[n].To = 0
		}
	}
	if err := f.w.o.Batches.Note(mq.Batch{Topic: f.b.topic, Rows: rows, Settled: settled}); err != nil {
		f.w.o.Logger.Warn("what is being written cannot be noted; a kill now may write it twice",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "error", err)
	}
}
