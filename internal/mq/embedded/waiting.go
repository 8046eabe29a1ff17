package embedded

import (
	"fmt"

	"github.com/wavehouse/wavehouse/internal/mq"
)

const (
	// tableShare is how many times what is left of a tenant's budget one of its
	// tables may have waiting. So a table that is not written takes four fifths
	// at most, two such take four ninths each, and any other has room.
	tableShare = 4
	// storedOverhead is what a chunk takes in the store beside its body and its
	// names, about.
	storedOverhead = 256
)

// waiting is what of each table is stored and not acknowledged, in bytes. It is
// guarded by the queue's mu.
type waiting struct {
	tables map[string]int64
	total  int64
	// known divides chunks: up to it they are counted when they are delivered
	// first, beyond it when they arrive.
	known uint64
}

// storedSize is about what a chunk takes in the store.
func storedSize(c *mq.Chunk) int64 {
	return int64(len(c.Body)+len(c.Columns)+len(c.Table)) + storedOverhead
}

// reset forgets all; last is the newest sequence of the stream.
func (w *waiting) reset(last uint64) { *w = waiting{known: last} }

// add counts n bytes of a table, or no longer when n is below zero.
func (w *waiting) add(table string, n int64) {
	if w.tables == nil {
		w.tables = map[string]int64{}
	}
	n = max(n, -w.tables[table])
	w.total += n
	if w.tables[table] += n; w.tables[table] == 0 {
		delete(w.tables, table)
	}
}

// arrived counts a chunk that was just stored, delivered one that is delivered
// for the first time.
func (w *waiting) arrived(seq uint64, c *mq.Chunk) {
	if seq > w.known {
		w.add(c.Table, storedSize(c))
	}
}

func (w *waiting) delivered(seq uint64, c *mq.Chunk) {
	if seq <= w.known {
		w.add(c.Table, storedSize(c))
	}
}

// full is waiting.full of the queue's budget.
func (q *queue) full(c *mq.Chunk) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.full(c, q.current())
}

// full is the reason to refuse a chunk of a table that has its share, or nil.
func (w *waiting) full(c *mq.Chunk, budget int64) error {
	if has := w.tables[c.Table]; has+storedSize(c) > tableShare*max(budget-w.total, 0) && has > 0 {
		return fmt.Errorf("%w: %d bytes of the table wait to be written, %d of all tables, and the budget is %d",
			mq.ErrFull, has, w.total, budget)
	}
	return nil
}
