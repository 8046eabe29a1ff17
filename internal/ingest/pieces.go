package ingest

import (
	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// rowOverhead is what a row costs in memory beside its bytes.
const rowOverhead = 16

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
	// records are those of a window that the rows are of.
	records []int
	// ids are the rows', for whoever claims them later.
	ids []byte
}

func (p *piece) add(index int, row []byte, id string) {
	if id != "" {
		p.ids = chunk.AppendID(p.ids, id)
	}
	p.body = append(p.body, row...)
	p.rows++
	if n := len(p.runs); n > 0 && p.runs[n-1].first+p.runs[n-1].count == index {
		p.runs[n-1].count++
		return
	}
	p.runs = append(p.runs, run{first: index, count: 1})
}

func (p *piece) fits(size, most int) bool {
	return p.rows == 0 || (p.rows < chunk.MaxRows && len(p.ids)+len(p.body)+size <= most)
}

// size is what the piece counts against the gate's memory.
func (p *piece) size() int64 { return int64(len(p.ids) + len(p.body) + p.rows*rowOverhead) }

func (g *Gate) newPiece(set *record.ColumnSet) *piece {
	p, ok := g.free.Get().(*piece)
	if !ok {
		p = &piece{}
	}
	p.set = set
	return p
}

// freePiece keeps the buffers for the next request. Nothing else refers to
// them: what was published is a copy.
func (g *Gate) freePiece(p *piece) {
	*p = piece{body: p.body[:0], runs: p.runs[:0], records: p.records[:0], ids: p.ids[:0]}
	g.free.Put(p)
}

// pieces are rows divided into pieces.
type pieces struct {
	// all are in the order of their first rows; open has the last of each column
	// set once there are several, last is the one that the last row went to.
	all  []*piece
	open map[*record.ColumnSet]*piece
	last *piece
	size int64
}

func (ps *pieces) reset() { *ps = pieces{} }

// add gives a row to the piece of its column set that it fits, and returns it. id
// is "" but for a row whose id is claimed later.
func (ps *pieces) add(g *Gate, set *record.ColumnSet, index int, row []byte, id string) *piece {
	p := ps.last
	if p != nil && p.set != set {
		if ps.open == nil {
			ps.open = map[*record.ColumnSet]*piece{p.set: p}
		}
		p = ps.open[set]
	}
	if p == nil || !p.fits(len(row)+len(id), g.chunkBytes) {
		p = g.newPiece(set)
		ps.all = append(ps.all, p)
		if ps.open != nil {
			ps.open[set] = p
		}
	}
	before := p.size()
	p.add(index, row, id)
	ps.size += p.size() - before
	ps.last = p
	return p
}
