package stream

import (
	"slices"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// view is how one caller sees a table.
type view struct {
	grant  Grant
	render record.RenderOptions
}

// projector turns chunks of one topic into row events.
type projector struct {
	topic  mq.Topic
	ids    idCodec
	hidden func() (columns []string, known bool)
	// withhold counts rows that are not streamed.
	withhold func(reason string, rows int, cause error)
}

// rows appends the row events of opened, from row index first on, as v shows them
// and says how many there are. What cannot be decided or rendered is withheld.
func (p *projector) rows(dst []byte, c mq.Chunk, at mq.Position, opened *chunk.Chunk, v view, first int) ([]byte, int) {
	keep, known := p.visibleColumns(opened.Layout, v.grant)
	if !known {
		p.withhold(withheldTable, opened.Rows-first, nil)
		return dst, 0
	}
	frame := newRowFrame(p.topic.Table, c.Received, opened.Layout.AsSent(keep))
	filter, _ := v.grant.(RowGrant)
	sent := 0
	for i := first; i < opened.Rows; i++ {
		row := opened.Slice(i, i+1)
		if filter != nil && !p.visibleRow(filter, opened.Layout, row) {
			continue
		}
		mark := len(dst)
		dst = p.ids.append(append(dst, "id: "...), rowPosition(at, i, opened.Rows))
		dst = append(dst, frame.head...)
		out, err := opened.Layout.AppendObject(dst, row, keep, v.render)
		if err != nil {
			p.withhold(withheldValue, 1, err)
			dst = dst[:mark]
			continue
		}
		dst = append(out, "}\n\n"...)
		sent++
	}
	return dst, sent
}

// rowPosition is the position behind row i of n. The last row's is the whole
// chunk's: who has it needs nothing of the chunk any more.
func rowPosition(at mq.Position, i, n int) position {
	if i == n-1 {
		return after(at)
	}
	return position{Position: at, row: uint32(i)}
}

// visibleColumns lists the layout's columns that the grant shows, nil for all
// of them, which the layout prints faster.
func (p *projector) visibleColumns(l *record.Layout, g Grant) (keep []int, known bool) {
	hidden, known := p.hidden()
	if !known {
		return nil, false
	}
	names := l.Names()
	keep = make([]int, 0, len(names))
	for i, name := range names {
		if g.Allows(name) && !slices.Contains(hidden, name) {
			keep = append(keep, i)
		}
	}
	if len(keep) == len(names) {
		return nil, true
	}
	return keep, true
}

func (p *projector) visibleRow(g RowGrant, l *record.Layout, row []byte) bool {
	ok, err := g.Visible(l, row)
	if err != nil {
		p.withhold(withheldFilter, 1, err)
		return false
	}
	return ok
}

// maxGuessedRows bounds the rows that a header is believed to promise.
const maxGuessedRows = 1 << 20

// size guesses the bytes of a chunk's events, to allocate once and to measure
// how far a reader is behind.
func size(c mq.Chunk) int64 {
	perRow := len(c.Columns) + len(c.Table) + 120
	return int64(len(c.Body)) + int64(min(max(c.Rows, 1), maxGuessedRows))*int64(perRow)
}
