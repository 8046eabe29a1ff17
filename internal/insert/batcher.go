package insert

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxOwed bounds the positions a batcher remembers of what it handed back.
const maxOwed = 100_000

// batcher gathers one table's chunks. All of it is guarded by the worker's
// mutex. At most one batch is written at a time; what arrives meanwhile makes
// the next one.
type batcher struct {
	topic    mq.Topic
	waits    *backoff // for failures that are the table's own
	refusals *backoff // for rows that are kept
	giveUp   chan struct{}
	// stopped is closed when nothing is to be waited for any more; lost says that
	// this is because the table's shard is, so that no batch begins either.
	stopped chan struct{}
	lost    bool

	pending []*held
	rows    int
	bytes   int64
	first   time.Time // when the first of pending came
	flush   Flush
	timer   *time.Timer
	timerAt time.Time

	// resume is what is to be written first; nil once it is.
	resume *resumption

	writing   bool
	urgent    bool  // memory is wanted: the next batch does not wait to fill
	admitting int   // deliveries waiting for room
	taken     int64 // bytes of the tenant's share

	// kept are refused rows of a table that must not park, and rows that may be
	// to blame for their failures. They are tried again when the window of
	// refusals is over.
	kept []insertion
	// inserts counts the INSERTs that succeeded. It is the writing batch's.
	inserts uint64

	// held are the chunks that the worker holds of the table, and handedBack says
	// of those that will come again when the gate took them.
	held       map[mq.Position]*held
	handedBack map[mq.Position]time.Time
	written    mq.Position // the highest position done with
}

func newBatcher(topic mq.Topic, shortest, longest time.Duration) *batcher {
	return &batcher{
		topic: topic, waits: newBackoff(shortest, longest), refusals: newBackoff(shortest, longest),
		giveUp: make(chan struct{}, 1), stopped: make(chan struct{}), held: make(map[mq.Position]*held), handedBack: make(map[mq.Position]time.Time),
	}
}

// stop ends the waits of the batcher. The worker's mutex is held.
func (b *batcher) stop() {
	select {
	case <-b.stopped:
	default:
		close(b.stopped)
	}
}

// gather gives an admitted chunk to its batcher. The worker's mutex is held.
func (w *Worker) gather(b *batcher, c *held) {
	c.taken = c.size()
	b.taken += c.taken
	if len(b.pending) == 0 {
		b.first = time.Now()
		b.flush = w.o.Settings(b.topic.Tenant, b.topic.Table).Flush.withDefaults()
	}
	b.pending = append(b.pending, c)
	if b.resume != nil {
		b.resume.came(c, b.first.Add(w.o.ResumePatience))
	}
	b.rows += c.Rows
	b.bytes += int64(len(c.Body))
	if !w.draining {
		w.schedule(b)
	}
}

// schedule has a batch written if one is due, or sees to it that one will be.
// In a drain only flushAll calls it, so that no batch begins once they are
// awaited.
func (w *Worker) schedule(b *batcher) {
	if b.writing || b.lost {
		return
	}
	now := time.Now()
	wait, due := b.due(now, w.draining)
	if due {
		b.disarm()
		b.writing = true
		*w.progress.counter(b.topic)++
		w.batches.Add(1)
		go w.writeBatches(b)
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

// due says whether a batch is due now, else in what time one will be; negative
// when nothing waits. A drain writes what waits, but tries no kept rows again.
func (b *batcher) due(now time.Time, draining bool) (wait time.Duration, due bool) {
	wait = -1
	if len(b.pending) > 0 && b.resume != nil {
		if wait = b.resume.wait(now); wait > 0 {
			return wait, false
		}
		return 0, true
	}
	if len(b.pending) > 0 {
		wait = max(0, b.first.Add(b.flush.MaxWait).Sub(now))
		if draining || b.urgent || wait == 0 || b.rows >= b.flush.MaxRows || b.bytes >= b.flush.MaxBytes {
			return 0, true
		}
	}
	if len(b.kept) > 0 && !draining {
		left, _ := b.refusals.waiting()
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
	idle := !b.writing && b.admitting == 0 && len(b.pending) == 0 && len(b.kept) == 0 && len(b.handedBack) == 0
	if idle && w.batchers[b.topic] == b {
		b.disarm()
		delete(w.batchers, b.topic)
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

// next takes the next batch: the oldest chunks up to a batch's size, one
// insertion per form, and kept rows that are due.
func (b *batcher) next(now time.Time) (insertions []insertion, done []*held) {
	if b.resume != nil {
		return b.nextResumed(now)
	}
	n, rows, bytes := 0, 0, int64(0)
	for n < len(b.pending) && (n == 0 || rows < b.flush.MaxRows && bytes < b.flush.MaxBytes) {
		rows += b.pending[n].Rows
		bytes += int64(len(b.pending[n].Body))
		n++
	}
	insertions = insertionsOf(b.pending[:n])
	b.pending = append([]*held(nil), b.pending[n:]...)
	b.urgent = false
	b.rows -= rows
	b.bytes -= bytes
	if n > 0 {
		b.first = now
	}
	if left, _ := b.refusals.waiting(); len(b.kept) > 0 && left == 0 {
		insertions = append(insertions, b.kept...)
		b.kept = nil
	}
	return insertions, nil
}

// nextResumed takes what the worker before was writing, and nothing else.
func (b *batcher) nextResumed(now time.Time) (insertions []insertion, done []*held) {
	insertions, done, b.pending = b.resume.take(b.pending)
	b.resume = nil
	b.rows, b.bytes, b.first = 0, 0, now
	for _, c := range b.pending {
		b.rows += c.Rows
		b.bytes += int64(len(c.Body))
	}
	return insertions, done
}

func insertionsOf(chunks []*held) []insertion {
	spans := make([]span, len(chunks))
	for n, c := range chunks {
		spans[n] = span{c: c, to: c.Rows}
	}
	return byForm(spans)
}

// keep puts refused rows aside, to be tried again later and later.
func (b *batcher) keep(refused []insertion, err error) {
	switch {
	case len(refused) > 0:
		b.kept = append(b.kept, refused...)
		b.refusals.fail()
	case len(b.kept) == 0:
		b.refusals.succeed()
	}
}

// wrote notes a chunk that is done with.
func (b *batcher) wrote(p mq.Position) {
	if order, ok := p.Compare(b.written); !ok || order > 0 {
		b.written = p
	}
}

// owe notes a chunk that was handed back and will come again.
func (b *batcher) owe(c *held) {
	if len(b.handedBack) < maxOwed {
		b.handedBack[c.pos] = c.header.Received
	}
}
