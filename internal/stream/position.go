package stream

import (
	"math"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// wholeChunk is the row of a position that lies behind a chunk's last row.
const wholeChunk = math.MaxUint32

// position says what a reader has consumed: everything up to and including
// row of the chunk at Position. The zero value is before everything.
type position struct {
	mq.Position
	row uint32
}

// after is the position behind every row of the chunk at p.
func after(p mq.Position) position { return position{Position: p, row: wholeChunk} }

// midChunk reports whether rows of the position's own chunk remain.
func (p position) midChunk() bool { return p.row != wholeChunk && !p.IsZero() }

// from is where a replay that continues at p starts: just before p's chunk
// while rows of it remain.
func (p position) from() mq.Position {
	if p.midChunk() {
		return p.Prev()
	}
	return p.Position
}

// skip is how many rows of the chunk at q a reader at p has consumed; all is
// true when there is nothing left for it. Both are of one queue.
func (p position) skip(q mq.Position) (rows int, all bool) {
	switch order, _ := p.Compare(q); {
	case order < 0:
		return 0, false
	case order > 0 || !p.midChunk():
		return 0, true
	}
	return int(p.row) + 1, false
}
