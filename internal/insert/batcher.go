package insert

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxOwed bounds the positions a batcher remembers of what it handed back.
const maxOwed = 100_000

// batcher gathers one table's chunks. All of it is guarded by the worker's
// mutex. At most one flush runs at a time; what arrives meanwhile makes the
// next batch.
type batcher struct {
	topic  mq.Topic
	waits  *backoff // for failures that are the table's own
	giveUp chan struct{}

	pending []*chunk
	rows    int
	bytes   int64
	first   time.Time // when the first of pending came
	flush   Flush
	timer   *time.Timer
	timerAt time.Time

	flying    bool
	urgent    bool  // memory is wanted: the next batch does not wait to fill
	admitting int   // deliveries waiting for room
	held      int64 // bytes admitted and not yet let go

	// kept are refused rows of a table that must not park, due at keptUntil.
	kept      []job
	keptTries int
	keptUntil time.Time

	handedBack map[mq.Position]struct{}
	written    mq.Position // the highest position done with
}

func newBatcher(topic mq.Topic, waits *backoff) *batcher {
	return &batcher{
		topic: topic, waits: waits, giveUp: make(chan struct{}, 1),
		handedBack: make(map[mq.Position]struct{}),
	}
}

// schedule starts a flush if one is due, or sees to it that one will be. In a
// drain only flushAll calls it, so that no flush begins once they are awaited.
func (w *Worker) schedule(b *batcher) {
	if b.flying {
		return
	}
	now := time.Now()
	wait, due := b.due(now, w.draining)
	if due {
		b.disarm()
		b.flying = true
		*w.progress.counter(b.topic)++
		w.flushes.Add(1)
		go w.fly(b)
		return
	}
	if wait < 0 {
		w.reap(b)
		return
	}
	if w.draining || b.timer != nil && !b.timerAt.After(now.Add(wait)) {
		return
	}
	b.disarm()
	b.timerAt = now.Add(wait)
	b.timer = time.AfterFunc(wait, func() { w.onTimer(b) })
}

func (w *Worker) onTimer(b *batcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.timer = nil
	if !w.draining {
		w.schedule(b)
	}
}

// due says whether a flush is due now, else in what time one will be; negative
// when nothing waits. A drain flushes what waits, but tries no kept rows again.
func (b *batcher) due(now time.Time, draining bool) (wait time.Duration, due bool) {
	wait = -1
	if len(b.pending) > 0 {
		wait = max(0, b.first.Add(b.flush.MaxWait).Sub(now))
		if draining || b.urgent || wait == 0 || b.rows >= b.flush.MaxRows || b.bytes >= b.flush.MaxBytes {
			return 0, true
		}
	}
	if len(b.kept) > 0 && !draining {
		left := max(0, b.keptUntil.Sub(now))
		if left == 0 {
			return 0, true
		}
		if wait < 0 || left < wait {
			wait = left
		}
	}
	return wait, false
}

func (b *batcher) disarm() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// reap forgets an idle batcher.
func (w *Worker) reap(b *batcher) {
	idle := !b.flying && b.admitting == 0 && len(b.pending) == 0 && len(b.kept) == 0 && len(b.handedBack) == 0
	if idle && w.batchers[b.topic] == b {
		b.disarm()
		delete(w.batchers, b.topic)
	}
}

// batch takes the next batch's jobs: the oldest chunks up to a batch's size,
// one job per shape, and kept rows that are due.
func (b *batcher) batch(now time.Time) []job {
	n, rows, bytes := 0, 0, int64(0)
	for n < len(b.pending) && (n == 0 || rows < b.flush.MaxRows && bytes < b.flush.MaxBytes) {
		rows += b.pending[n].rows
		bytes += int64(len(b.pending[n].body))
		n++
	}
	jobs := jobsOf(b.pending[:n])
	b.pending = append([]*chunk(nil), b.pending[n:]...)
	b.urgent = false
	b.rows -= rows
	b.bytes -= bytes
	if n > 0 {
		b.first = now
	}
	if len(b.kept) > 0 && !now.Before(b.keptUntil) {
		jobs = append(jobs, b.kept...)
		b.kept = nil
	}
	return jobs
}

func jobsOf(chunks []*chunk) []job {
	var jobs []job
	at := make(map[*shape]int)
	for _, c := range chunks {
		i, ok := at[c.shape]
		if !ok {
			i = len(jobs)
			at[c.shape] = i
			jobs = append(jobs, job{shape: c.shape})
		}
		jobs[i].spans = append(jobs[i].spans, span{c: c, to: c.rows})
	}
	return jobs
}

// settled notes a chunk that is done with.
func (b *batcher) settled(p mq.Position) {
	if order, ok := p.Compare(b.written); !ok || order > 0 {
		b.written = p
	}
}

// owe notes a chunk that was handed back and will come again.
func (b *batcher) owe(p mq.Position) {
	if len(b.handedBack) < maxOwed {
		b.handedBack[p] = struct{}{}
	}
}

// stuck reports whether the table itself keeps its rows from being written,
// and in what time it is worth coming again.
func (w *Worker) stuck(b *batcher) (bool, time.Duration) {
	_, _, left, waiting := b.waits.active()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(b.kept) > 0 {
		left = max(left, time.Until(b.keptUntil))
		waiting = true
	}
	return waiting, max(left, w.o.BackoffMin)
}

func (w *Worker) heldBy(b *batcher) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return b.held
}

// reclaim makes room in a tenant's share: its batches go before they are full,
// and its stuck tables hand back what they hold.
func (w *Worker) reclaim(id tenant.ID) {
	for _, b := range w.hurry(id) {
		if stuck, delay := w.stuck(b); stuck {
			w.handBackPending(b, delay)
			select {
			case b.giveUp <- struct{}{}:
			default:
			}
		}
	}
}

// hurry makes the tenant's batches due and returns its batchers.
func (w *Worker) hurry(id tenant.ID) []*batcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*batcher
	for topic, b := range w.batchers {
		if topic.Tenant != id {
			continue
		}
		all = append(all, b)
		if len(b.pending) > 0 && !w.draining {
			b.urgent = true
			w.schedule(b)
		}
	}
	return all
}

func (w *Worker) handBackPending(b *batcher, delay time.Duration) {
	w.mu.Lock()
	chunks := b.pending
	b.pending, b.rows, b.bytes = nil, 0, 0
	w.mu.Unlock()
	w.handBackAll(b, chunks, delay)
}

// handBackAll gives admitted chunks back to the queue.
func (w *Worker) handBackAll(b *batcher, chunks []*chunk, delay time.Duration) {
	w.mu.Lock()
	for _, c := range chunks {
		b.owe(c.key.pos)
	}
	w.mu.Unlock()
	deliveries := w.deliveries(chunks)
	w.letGo(b, chunks)
	for _, d := range deliveries {
		w.nak(d, delay)
	}
}
