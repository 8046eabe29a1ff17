package insert

import (
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// batch is rows of one table that are written together, in an INSERT per form
// unless some of them are refused.
type batch struct {
	w        *Worker
	b        *batcher
	settings TableSettings

	letters  []mq.DeadLetter
	lettered []span      // the rows of letters, for when they are stored
	refused  []insertion // rows that are kept, because nothing may be parked
	refusal  error       // why, of the last of them
	streak   int         // refusals since something was last written
}

// writeBatches writes batches until none is due.
func (w *Worker) writeBatches(b *batcher) {
	defer w.batches.Done()
	for {
		f := &batch{w: w, b: b, settings: w.o.Settings(b.topic.Tenant, b.topic.Table)}
		w.mu.Lock()
		b.flush = f.settings.Flush.withDefaults()
		insertions, done := b.next(time.Now())
		w.mu.Unlock()
		f.acknowledge(done)
		ok := f.write(insertions)
		f.end()
		if !w.again(b, ok) {
			return
		}
	}
}

// write brings every row to its end: written, parked, kept or handed back. It
// is false when the worker stops before that; the rows are then in the queue.
func (f *batch) write(insertions []insertion) bool {
	for _, whole := range insertions {
		for todo := []insertion{whole}; len(todo) > 0; {
			next := todo[0]
			v, err := f.attempt(&next)
			if v == stopped {
				f.dropLetters()
				f.storeLetters()
				return false
			}
			todo = slices.Concat(f.settle(next, v, err), todo[1:])
			if len(f.letters) >= maxLetters && !f.storeLetters() {
				return false
			}
		}
		if !f.storeLetters() {
			return false
		}
	}
	return true
}

// end notes what the batch did.
func (f *batch) end() {
	w := f.w
	w.mu.Lock()
	f.b.keep(f.refused, f.refusal)
	w.mu.Unlock()
	if f.refusal != nil {
		rows := 0
		for _, i := range f.refused {
			rows += i.rows()
		}
		w.o.Logger.Error("rows fail and may not be parked, or not yet; they are kept and tried again",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "rows", rows, "error", f.refusal)
	}
}

// again ends the writing of a batch; true when the next one is due at once.
func (w *Worker) again(b *batcher, ok bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok && !b.lost {
		if _, due := b.due(time.Now(), w.draining); due {
			return true
		}
	}
	b.writing = false
	w.left.Broadcast()
	if ok && !w.draining {
		w.schedule(b)
	}
	return false
}
