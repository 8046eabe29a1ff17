package embedded

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

var _ mq.Batches = (*Broker)(nil)

// batches is the journal of what is being written, of all tenants. Its lock
// comes before the broker's and the queues'.
type batches struct {
	mu   sync.Mutex
	file *ledger.Journal
}

// openBatches reads what was being written when the process before ended. The
// queues are open.
func (b *Broker) openBatches() error {
	file, records, err := ledger.OpenJournal(filepath.Join(b.acksDir, "batches"))
	if err != nil {
		return err
	}
	b.batches.file = file
	for _, r := range records {
		if batch, ok := decodeBatch(r); ok {
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
	if err := b.batches.file.Append(encodeBatch(&batch), b.notedRecords); err != nil {
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
			records = append(records, encodeBatch(&q.noted[i]))
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
		out[i].Settled = out[i].Settled || slices.ContainsFunc(out[i].Rows, q.doneLocked)
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

// A record is whether the rows are settled, the tenant and the table, the
// stream's epoch, and runs of chunks of which the same rows are meant: how far
// the first is from the last one before, how many follow each other, from, to.

func encodeBatch(b *mq.Batch) []byte {
	dst := make([]byte, 0, 64+len(b.Table))
	dst = append(dst, 0)
	if b.Settled {
		dst[0] = 1
	}
	for _, name := range []string{string(b.Tenant), b.Table} {
		dst = append(binary.AppendUvarint(dst, uint64(len(name))), name...)
	}
	epoch, last := uint64(0), uint64(0)
	if len(b.Rows) > 0 {
		epoch, _ = mq.SplitPosition(b.Rows[0].Chunk)
	}
	dst = binary.AppendUvarint(dst, epoch)
	for n := 0; n < len(b.Rows); {
		first := b.Rows[n]
		_, seq := mq.SplitPosition(first.Chunk)
		count := 1
		for n += 1; n < len(b.Rows); n++ {
			next := mq.Rows{Chunk: mq.NewPosition(epoch, seq+uint64(count)), From: first.From, To: first.To}
			if b.Rows[n] != next {
				break
			}
			count++
		}
		dst = binary.AppendVarint(dst, int64(seq-last))
		for _, v := range []int{count, first.From, first.To} {
			dst = binary.AppendUvarint(dst, uint64(v))
		}
		last = seq + uint64(count) - 1
	}
	return dst
}

// batchReader takes the fields of a record off its start.
type batchReader struct {
	b  []byte
	ok bool
}

func (r *batchReader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	return r.took(v, n)
}

func (r *batchReader) int() uint64 {
	v, n := binary.Varint(r.b)
	return r.took(uint64(v), n)
}

func (r *batchReader) took(v uint64, n int) uint64 {
	if n <= 0 {
		r.b, r.ok = nil, false
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *batchReader) text() string {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.b, r.ok = nil, false
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func decodeBatch(record []byte) (b mq.Batch, ok bool) {
	r := &batchReader{b: record, ok: true}
	b.Settled = r.uint() == 1
	id, err := tenant.Parse(r.text())
	b.Tenant, b.Table = id, r.text()
	epoch, last := r.uint(), uint64(0)
	for len(r.b) > 0 {
		seq, count := last+r.int(), r.uint()
		from, to := int(r.uint()), int(r.uint())
		if count == 0 || count > maxOpen {
			return b, false
		}
		for n := range count {
			b.Rows = append(b.Rows, mq.Rows{Chunk: mq.NewPosition(epoch, seq+n), From: from, To: to})
		}
		last = seq + count - 1
	}
	return b, r.ok && err == nil && len(b.Rows) > 0
}
