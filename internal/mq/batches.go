package mq

// Rows are the rows From to To-1 of a chunk; To is 0 for all of them.
type Rows struct {
	Chunk    Position
	From, To int
}

// Batch is rows of one topic that are written together, in their order.
type Batch struct {
	Topic
	Rows []Rows
	// Settled says that they are written or parked; else they may be written,
	// by an INSERT of just these rows.
	Settled bool
}

// Batches remembers what a worker was about to write, so that the one after it
// can repeat it unchanged: a table that remembers INSERTs then stores it once.
// It is for queues that can do so at a small cost.
type Batches interface {
	// Note keeps a batch durably against the end of the process, until all of
	// its chunks are acknowledged. It takes the place of those of the topic that
	// have rows of it and are not settled: what is tried in another composition
	// was not written in the one before.
	Note(b Batch) error
	// Noted returns the batches of a shard, in the order in which they were
	// noted, without rows of chunks that are acknowledged. One that had such
	// counts as settled, as that is done with what is written.
	Noted(s Shard) ([]Batch, error)
}

// overlaps reports whether the batches have rows in common.
func (b *Batch) overlaps(other *Batch) bool {
	if b.Topic != other.Topic {
		return false
	}
	rows := make(map[Position][]Rows, len(b.Rows))
	for _, r := range b.Rows {
		rows[r.Chunk] = append(rows[r.Chunk], r)
	}
	for _, o := range other.Rows {
		for _, r := range rows[o.Chunk] {
			if (r.To == 0 || o.From < r.To) && (o.To == 0 || r.From < o.To) {
				return true
			}
		}
	}
	return false
}

// NoteBatch adds a batch to those that are noted.
func NoteBatch(noted []Batch, b Batch) []Batch {
	kept := make([]Batch, 0, len(noted)+1)
	for i := range noted {
		if noted[i].Settled || !b.overlaps(&noted[i]) {
			kept = append(kept, noted[i])
		}
	}
	return append(kept, b)
}
