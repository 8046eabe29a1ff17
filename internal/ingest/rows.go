package ingest

import (
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

const (
	// MaxChunkRows bounds a chunk: large enough that a write
	// to disk is shared by many rows, small enough to fit a message.
	MaxChunkRows = 1000
	// MaxChunkBytes is that bound in bytes.
	MaxChunkBytes = 512 << 10
	// rowOverhead is what a row costs in memory beside its bytes.
	rowOverhead = 16
)

// run is a range of records of a body, first counted from 1.
type run struct{ first, count int }

// piece is the rows of one request that travel together: one column set, at
// most one chunk.
type piece struct {
	set  *record.ColumnSet
	body []byte
	rows int
	runs []run
	// chunk and at are where the rows are once they are durable: the chunk's
	// position, and the index in it of the first of them.
	chunk mq.Position
	at    int
}

func (p *piece) add(index int, row []byte) {
	p.body = append(p.body, row...)
	p.rows++
	if n := len(p.runs); n > 0 && p.runs[n-1].first+p.runs[n-1].count == index {
		p.runs[n-1].count++
		return
	}
	p.runs = append(p.runs, run{first: index, count: 1})
}

func (p *piece) fits(row []byte) bool {
	return p.rows == 0 || (p.rows < MaxChunkRows && len(p.body)+len(row) <= MaxChunkBytes)
}

// size is what the piece counts against the gate's memory.
func (p *piece) size() int64 { return int64(len(p.body) + p.rows*rowOverhead) }
