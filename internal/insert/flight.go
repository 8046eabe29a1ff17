package insert

import (
	"math/rand/v2"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// flight is the writing of one batch.
type flight struct {
	w        *Worker
	b        *batcher
	park     bool // refused rows become dead letters
	letters  []mq.DeadLetter
	lettered []span        // the rows of letters, for when they are stored
	refused  []job         // rows that are kept, because nothing may be parked
	refusal  error         // why, of the last of them
	streak   int           // refusals since something was last written
	complete []mq.Position // chunks all of whose rows are settled
	inserted int
	parked   int
}

// fly writes batches until none is due.
func (w *Worker) fly(b *batcher) {
	defer w.flushes.Done()
	for {
		settings := w.o.Settings(b.topic.Tenant, b.topic.Table)
		f := &flight{w: w, b: b, park: settings.Park}
		w.mu.Lock()
		b.flush = settings.Flush.withDefaults()
		jobs := b.batch(time.Now())
		w.mu.Unlock()
		ok := f.write(jobs)
		w.land(f)
		if !w.again(b, ok) {
			return
		}
	}
}

// land notes what a flight did, and says so.
func (w *Worker) land(f *flight) {
	w.mu.Lock()
	w.totals.inserted += uint64(f.inserted)
	w.totals.parked += uint64(f.parked)
	w.keep(f.b, f.refused)
	w.mu.Unlock()
	if f.refusal != nil {
		w.o.Logger.Error("ClickHouse refuses rows; they are kept and tried again, since nothing may be parked",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "rows", rowsOf(f.refused), "error", f.refusal)
	}
	if f.inserted > 0 || len(f.complete) > 0 {
		w.o.Tell(notice.Written{Topic: f.b.topic, Inserted: f.inserted, Settled: f.complete})
	}
}

func rowsOf(jobs []job) int {
	n := 0
	for _, j := range jobs {
		n += j.rows()
	}
	return n
}

// again ends a flight; true when the next batch is due at once.
func (w *Worker) again(b *batcher, ok bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok {
		if _, due := b.due(time.Now(), w.draining); due {
			return true
		}
	}
	b.flying = false
	if ok && !w.draining {
		w.schedule(b)
	}
	return false
}

// keep puts refused rows aside, to be tried again later and later.
func (w *Worker) keep(b *batcher, refused []job) {
	if len(refused) == 0 {
		if len(b.kept) == 0 {
			b.keptTries = 0
		}
		return
	}
	b.kept = append(b.kept, refused...)
	bound := w.o.BackoffMax
	if b.keptTries < 20 {
		bound = min(bound, w.o.BackoffMin<<b.keptTries)
	}
	b.keptTries++
	b.keptUntil = time.Now().Add(max(w.o.BackoffMin, time.Duration(rand.Int64N(int64(bound)+1))))
}

// write settles every job; false when the worker stops before that.
func (f *flight) write(jobs []job) bool {
	for _, j := range jobs {
		if !f.settle(j) {
			return false
		}
	}
	return true
}

// maxLetters is how many rows are parked at a time.
const maxLetters = 1000

// settle brings every row of a job to its end: written, parked, kept or handed
// back. It is false when the worker stops before that.
func (f *flight) settle(j job) bool {
	stack := []job{j}
	for len(stack) > 0 {
		last := len(stack) - 1
		next := stack[last]
		stack = stack[:last]
		verdict, err := f.attempt(&next)
		switch verdict {
		case verdictStored:
			f.streak = 0
			f.inserted += next.rows()
			f.w.metrics.inserted(f.b.topic, next.rows())
			f.done(next.spans)
		case verdictRefused:
			f.streak++
			stack = push(stack, f.refuse(next, err))
		case verdictTooMuch:
			stack = push(stack, f.halve(next))
		case verdictHomeless:
			f.parkJob(next, err)
		case verdictHandBack:
			f.release(next)
		case verdictStop:
			f.storeLetters()
			return false
		}
		if len(f.letters) >= maxLetters && !f.storeLetters() {
			return false
		}
	}
	return f.storeLetters()
}

// push puts parts on the stack so that the first is taken next.
func push(stack, parts []job) []job {
	for i := len(parts) - 1; i >= 0; i-- {
		stack = append(stack, parts[i])
	}
	return stack
}

// done counts rows as settled and acknowledges the chunks that are complete.
func (f *flight) done(spans []span) {
	var complete []*chunk
	for _, s := range spans {
		if s.c.left -= s.rows(); s.c.left == 0 {
			complete = append(complete, s.c)
			f.complete = append(f.complete, s.c.key.pos)
		}
	}
	f.w.ack(f.b, complete)
}

// release hands the job's chunks back to the queue.
func (f *flight) release(j job) {
	chunks := make([]*chunk, len(j.spans))
	for i, s := range j.spans {
		chunks[i] = s.c
	}
	_, delay := f.w.stuck(f.b)
	f.w.handBackAll(f.b, chunks, delay)
}

func (f *flight) halve(j job) []job {
	if readable := f.pair(j); len(readable.spans) > 0 {
		return readable.split(2)
	}
	return nil
}

// pair finds the rows of the job's chunks; chunks that turn out not to hold
// what their header says are parked as they came. It returns the others.
func (f *flight) pair(j job) job {
	paired := j
	paired.spans = nil
	for _, s := range j.spans {
		if err := s.c.pair(); err != nil {
			f.parkBroken(s, err)
			continue
		}
		paired.spans = append(paired.spans, s)
	}
	return paired
}
