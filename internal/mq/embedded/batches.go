package embedded

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

var _ mq.Batches = (*Broker)(nil)

const batchesFile = "batches"

// batches is the journal of what is being written, of all tenants. Its lock
// comes before the broker's and the queues'.
type batches struct {
	mu   sync.Mutex
	file *ledger.Journal
}

// openBatches reads what was being written when the process before ended. The
// queues are open.
func (b *Broker) openBatches() error {
	path := filepath.Join(b.acksDir, batchesFile)
	file, records, damaged, err := ledger.OpenJournal(path)
	if err != nil {
		return err
	}
	if damaged > 0 {
		b.host.inspector.damagedBatches(path, damaged, len(records))
	}
	b.batches.file = file
	for _, r := range records {
		if batch, ok := jetstream.DecodeBatch(r, maxOpen); ok {
			q := b.queueLocked(batch.Tenant)
			q.noted = mq.NoteBatch(q.noted, batch)
		}
	}
	return nil
}

// Note implements mq.Batches: one write to a file, which is synced with the
// acknowledgements.
func (b *Broker) Note(batch mq.Batch) error {
	if err := b.life.Enter(); err != nil {
		return err
	}
	defer b.life.Leave()
	q := b.queue(batch.Tenant)
	q.mu.Lock()
	q.noted = mq.NoteBatch(q.noted, batch)
	q.mu.Unlock()
	b.batches.mu.Lock()
	defer b.batches.mu.Unlock()
	if err := b.batches.file.Append(jetstream.EncodeBatch(&batch), b.notedRecords); err != nil {
		return fmt.Errorf("note a batch of table %q of tenant %s: %w", batch.Table, batch.Tenant, err)
	}
	return nil
}

// notedRecords are the journal's records that count.
func (b *Broker) notedRecords() (records [][]byte) {
	for _, q := range b.all() {
		q.mu.Lock()
		q.forgetLocked()
		for i := range q.noted {
			records = append(records, jetstream.EncodeBatch(&q.noted[i]))
		}
		q.mu.Unlock()
	}
	return records
}

// Noted implements mq.Batches.
func (b *Broker) Noted(s mq.Shard) ([]mq.Batch, error) {
	if err := b.life.Enter(); err != nil {
		return nil, err
	}
	defer b.life.Leave()
	q, ok := b.known(tenant.ID(s.Name))
	if !ok {
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetLocked()
	out := slices.Clone(q.noted)
	for i := range out {
		left := slices.DeleteFunc(slices.Clone(out[i].Rows), q.doneLocked)
		out[i].Settled = out[i].Settled || len(left) < len(out[i].Rows)
		out[i].Rows = left
	}
	return out, nil
}

// forgetLocked drops batches whose chunks are all acknowledged, or of a stream
// that is gone. Those of a queue that is not open may be either.
func (q *queue) forgetLocked() {
	if q.epoch == 0 {
		return
	}
	q.noted = slices.DeleteFunc(q.noted, func(b mq.Batch) bool {
		return !slices.ContainsFunc(b.Rows, func(r mq.Rows) bool { return !q.doneLocked(r) })
	})
}

func (q *queue) doneLocked(r mq.Rows) bool {
	epoch, seq := mq.SplitPosition(r.Chunk)
	return epoch != q.epoch || q.acked.Done(seq)
}

func (b *Broker) syncBatches() {
	b.batches.mu.Lock()
	defer b.batches.mu.Unlock()
	if err := b.batches.file.Sync(); err != nil {
		b.log.Error("what is being written is not noted on disk", "error", err)
	}
}
