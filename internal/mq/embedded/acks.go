package embedded

import (
	"errors"
	"fmt"
	"path/filepath"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// acksFolder is where ledgers and marks are.
const acksFolder = "acks"

func ledgerPath(dir string, t tenant.ID) string { return filepath.Join(dir, string(t)+".acks") }

// loadAcked reads what was acknowledged in the stream. ackMu is held.
func (q *queue) loadAcked(epoch uint64, info *natsjs.StreamInfo) (ledger.Acked, error) {
	if err := q.closeLedgerLocked(); err != nil {
		return ledger.Acked{}, err
	}
	l, state, err := ledger.Open(ledgerPath(q.b.acksDir, q.tenant), ledger.Stream{
		Name: info.Config.Name, Epoch: epoch,
		First: info.State.FirstSeq, Last: info.State.LastSeq, Messages: info.State.Msgs,
	}, q.log)
	q.ledger = l
	return state, err
}

// acknowledge records sequences as delivered for good.
func (q *queue) acknowledge(epoch uint64, seqs []uint64) error {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	add, ok := q.unacked(epoch, seqs)
	if !ok || len(add) == 0 {
		return nil
	}
	if err := q.ledger.Append(add, q.ackedCopy); err != nil {
		return fmt.Errorf("tenant %s: %w", q.tenant, err)
	}
	n := q.settle(add)
	if err := q.ledger.Compact(n, q.ackedCopy); err != nil {
		// The longer file is still right.
		q.log.Warn("acknowledgements are not compacted", "error", err)
	}
	return nil
}

// unacked returns those of seqs that are not acknowledged; ok is false when
// they are of a stream that is gone.
func (q *queue) unacked(epoch uint64, seqs []uint64) (add []ledger.Range, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if epoch != q.epoch {
		return nil, false
	}
	fresh := seqs[:0]
	for _, seq := range seqs {
		if !q.acked.Done(seq) {
			fresh = append(fresh, seq)
		}
	}
	return ledger.Merged(fresh), true
}

func (q *queue) ackedCopy() ledger.Acked {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.acked.Clone()
}

// settle marks what the ledger now says, and returns in how many ranges it is
// said.
func (q *queue) settle(add []ledger.Range) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range add {
		q.acked.Add(s)
		if q.source != nil {
			q.source.ackedLocked(s)
		}
	}
	q.forgetLocked()
	if q.acked.Floor >= q.last {
		q.waiting.reset(q.last) // whatever was counted in error
	}
	return len(q.acked.Above)
}

// close syncs and closes the ledger.
func (q *queue) close() error {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	return errors.Join(q.closeLedgerLocked(), q.ingestMark.close(), q.letterMark.close(), q.letterRemoved.close())
}

func (q *queue) closeLedgerLocked() error {
	if q.ledger == nil {
		return nil
	}
	return q.ledger.Close()
}

func (q *queue) syncLedger() {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	if q.ledger == nil {
		return
	}
	if err := errors.Join(q.ledger.Sync(), q.ingestMark.sync(), q.letterMark.sync(), q.letterRemoved.sync()); err != nil {
		q.log.Error("acknowledgements are not on disk", "error", err)
	}
}
