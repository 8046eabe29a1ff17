package embedded

import (
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/blocks"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Damages implements mq.Faults.
func (b *Broker) Damages() []mq.Damage { return b.host.inspector.list() }

// Unavailable implements mq.Faults.
func (b *Broker) Unavailable() map[tenant.ID]error {
	out := map[tenant.ID]error{}
	for _, q := range b.all() {
		if err := q.failure(); err != nil {
			out[q.tenant] = err
		}
	}
	return out
}

// countDamage adds to the metrics what was found since the last time.
func (b *Broker) countDamage() {
	for _, d := range b.host.inspector.uncounted() {
		b.metrics.damages.WithLabelValues(d.Store).Inc()
		switch d.Store {
		case mq.StoreQueue:
			b.metrics.lost.WithLabelValues(string(d.Tenant)).Add(float64(d.Lost))
		case mq.StoreDeadLetters:
			b.metrics.lostLetters.WithLabelValues(string(d.Tenant)).Add(float64(d.Lost))
		}
	}
}

// scrub looks for damage to files in use, until the broker closes.
func (b *Broker) scrub() {
	for b.ctx.Err() == nil {
		lifetime.Pause(b.ctx, b.o.scrubEvery)
		b.host.inspector.seen.Forget()
		for _, q := range b.all() {
			if b.ctx.Err() != nil {
				return
			}
			for _, letters := range []bool{false, true} {
				b.noteHurt(q.files(letters).Scrub())
			}
		}
	}
}

// files describes the files of one of the queue's streams.
func (q *queue) files(letters bool) *blocks.Stream {
	name := ingestStream(q.tenant)
	if letters {
		name = letterStream(q.tenant)
	}
	s := q.b.host.inspector.stream(name, q.tenant, letters)
	return &s
}

// hurtAt reports whether the files that hold seq are damaged, and has them
// repaired then.
func (q *queue) hurtAt(seq uint64) bool {
	return q.b.noteHurt(q.files(false).HurtAt(seq, time.Now()))
}

func (b *Broker) noteHurt(hurt bool, err error) bool {
	switch {
	case err != nil:
		b.log.Warn("files of the queue cannot be looked at", "error", err)
	case hurt:
		b.hurt.Store(true)
	}
	return hurt
}

// forgo takes chunks that are gone for acknowledged, so that nobody waits for
// them and they are told once. ackMu is held; state is the ledger's.
func (q *queue) forgo(lost ledger.Ranges, state *ledger.Acked) {
	if len(lost) == 0 {
		return
	}
	before := state.Clone()
	if err := q.ledger.Append(lost, before.Clone); err != nil {
		q.log.Error("lost chunks are not noted: they will be told of again", "error", err)
	}
	for _, s := range lost {
		state.Add(s)
	}
}

// lose skips chunks that were stored, not acknowledged, and that the stream no
// longer holds: the server dropped them while it ran.
func (q *queue) lose(generation uint64, holes ...ledger.Range) {
	if len(holes) == 0 {
		return
	}
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	q.mu.Lock()
	var lost ledger.Ranges
	for _, s := range holes {
		if s.Lo = max(s.Lo, q.acked.Floor+1); s.Lo <= s.Hi {
			lost = lost.Add(s)
		}
	}
	lost = lost.Minus(q.acked.Above) // acknowledged meanwhile, or purged
	before := q.acked.Clone()
	stale := generation != q.generation
	q.mu.Unlock()
	stream := ingestStream(q.tenant)
	lost = lost.Minus(q.b.host.inspector.untaken(stream)) // told of already: adoptIngest skips them
	if len(lost) == 0 || stale {
		return
	}
	q.forgo(lost, &before)
	q.settle(lost)
	q.b.host.inspector.report(stream, blocks.Report{Lost: lost}, mq.Damage{
		Tenant: q.tenant, Store: mq.StoreQueue, Found: q.b.o.Now(), Detail: "found when the chunks were read",
	})
	q.b.host.inspector.taken(stream, lost)
	q.b.countDamage()
}

// mark is a note of the newest sequence that was answered for, so that damage
// to the end of a stream can be told from a write that was cut short.
type mark struct {
	mu   sync.Mutex
	file *ledger.Mark
	at   uint64 // the epoch that file is of
}

// open follows a stream that was opened. Without the note the stream is as good
// as it was.
func (m *mark) open(q *queue, stream string, epoch, last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil && m.at == epoch {
		m.reachLocked(q, last)
		return
	}
	if m.file != nil {
		_ = m.file.Close()
	}
	file, err := ledger.OpenMark(q.b.host.inspector.markPath(stream), epoch, last)
	if err != nil {
		q.log.Warn("what is stored last is not noted", "stream", stream, "error", err)
	}
	m.file, m.at = file, epoch
}

// reach notes that seq was answered for, before it is.
func (m *mark) reach(q *queue, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reachLocked(q, seq)
}

func (m *mark) reachLocked(q *queue, seq uint64) {
	if m.file == nil {
		return
	}
	if err := m.file.Reach(seq); err != nil {
		q.log.Warn("what is stored last is not noted", "error", err)
		_ = m.file.Close()
		m.file = nil
	}
}

func (m *mark) sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	return m.file.Sync()
}

func (m *mark) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	err := m.file.Close()
	m.file = nil
	return err
}
