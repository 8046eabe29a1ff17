package jetstream

import (
	"encoding/binary"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// A record is whether the rows are settled, the tenant and the table, the
// stream's epoch, and runs of chunks of which the same rows are meant: how far
// the first is from the last one before, how many follow each other, from, to.

// EncodeBatch makes a record of a batch, whose chunks are of one stream.
func EncodeBatch(b *mq.Batch) []byte {
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

// DecodeBatch reads one; ok is false for what is no record, or of more than most
// chunks in a run.
func DecodeBatch(record []byte, most uint64) (b mq.Batch, ok bool) {
	r := &batchReader{b: record, ok: true}
	b.Settled = r.uint() == 1
	id, err := tenant.Parse(r.text())
	b.Tenant, b.Table = id, r.text()
	epoch, last := r.uint(), uint64(0)
	for len(r.b) > 0 {
		seq, count := last+r.int(), r.uint()
		from, to := int(r.uint()), int(r.uint())
		if count == 0 || count > most {
			return b, false
		}
		for n := range count {
			b.Rows = append(b.Rows, mq.Rows{Chunk: mq.NewPosition(epoch, seq+n), From: from, To: to})
		}
		last = seq + count - 1
	}
	return b, r.ok && err == nil && len(b.Rows) > 0
}
