package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"
)

// loadAcked reads what was acknowledged in the stream. What the stream does
// not hold any more counts as acknowledged; what it does not hold yet cannot
// be, or a chunk that gets the sequence later would never be delivered.
// ackMu is held.
func (q *queue) loadAcked(epoch uint64, info *jetstream.StreamInfo) (acked, error) {
	path := filepath.Join(q.b.acksDir, string(q.tenant)+".acks")
	if q.ledger != nil {
		if err := q.ledger.close(); err != nil {
			return acked{}, err
		}
	}
	l, state, found, err := openLedger(path)
	if err != nil {
		return acked{}, err
	}
	q.ledger = l
	first, last := info.State.FirstSeq, info.State.LastSeq
	if !found || state.epoch != epoch {
		if info.State.Msgs > 0 {
			q.log.Warn("no record of what was delivered: all kept chunks are delivered again",
				"file", path, "chunks", info.State.Msgs)
		}
		state = acked{epoch: epoch}
	}
	beyond := state.floor > last || (len(state.above) > 0 && state.above[len(state.above)-1].hi > last)
	if beyond {
		q.log.Error("the stream lost its newest chunks", "stream", ingestStream(q.tenant), "last", last, "acknowledged", state.floor)
		state = state.upTo(last)
	}
	if first > 0 && state.floor < first-1 {
		state.floor = first - 1
		state.above, state.floor = state.above.advance(state.floor)
	}
	if !found || beyond || state.epoch != epoch || l.broken {
		return state, l.rewrite(&state)
	}
	return state, nil
}

// upTo cuts the record at last.
func (a acked) upTo(last uint64) acked {
	out := acked{epoch: a.epoch, floor: min(a.floor, last)}
	for _, s := range a.above {
		if s.lo <= last {
			out.above = append(out.above, span{s.lo, min(s.hi, last)})
		}
	}
	return out
}

// done reports whether seq needs no delivery.
func (a *acked) done(seq uint64) bool {
	if seq <= a.floor {
		return true
	}
	_, ok := a.above.find(seq)
	return ok
}

func (a *acked) add(s span) {
	a.above = a.above.add(s)
	a.above, a.floor = a.above.advance(a.floor)
}

// acknowledge records sequences as delivered for good.
func (q *queue) acknowledge(epoch uint64, seqs []uint64) error {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	add, ok := q.unacked(epoch, seqs)
	if !ok || len(add) == 0 {
		return nil
	}
	err := q.ledger.append(add)
	if errors.Is(err, errRewrite) {
		state := q.ackedCopy()
		for _, s := range add {
			state.add(s)
		}
		err = q.ledger.rewrite(&state)
	}
	if err != nil {
		return fmt.Errorf("tenant %s: %w", q.tenant, err)
	}
	q.settle(add)
	return nil
}

// unacked returns those of seqs that are not acknowledged; ok is false when
// they are of a stream that is gone.
func (q *queue) unacked(epoch uint64, seqs []uint64) (add []span, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if epoch != q.epoch {
		return nil, false
	}
	fresh := seqs[:0]
	for _, seq := range seqs {
		if !q.acked.done(seq) {
			fresh = append(fresh, seq)
		}
	}
	return merged(fresh), true
}

func (q *queue) ackedCopy() acked {
	q.mu.Lock()
	defer q.mu.Unlock()
	return acked{epoch: q.acked.epoch, floor: q.acked.floor, above: append(spans(nil), q.acked.above...)}
}

// settle marks what the ledger now says; ackMu is held.
func (q *queue) settle(add []span) {
	q.mu.Lock()
	for _, s := range add {
		q.acked.add(s)
		if q.source != nil {
			q.source.ackedLocked(s)
		}
	}
	n := len(q.acked.above)
	q.mu.Unlock()
	if !q.ledger.long(n) {
		return
	}
	state := q.ackedCopy()
	if err := q.ledger.rewrite(&state); err != nil {
		// The longer file is still right.
		q.log.Warn("acknowledgements are not compacted", "error", err)
	}
}

// close syncs and closes the ledger.
func (q *queue) close() error {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	if q.ledger == nil {
		return nil
	}
	return q.ledger.close()
}

func (q *queue) syncLedger() {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	if q.ledger == nil {
		return
	}
	if err := q.ledger.sync(); err != nil {
		q.log.Error("acknowledgements are not on disk", "error", err)
	}
}

// removeTemp drops what a replaced ledger left behind when cut short.
func removeTemp(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
