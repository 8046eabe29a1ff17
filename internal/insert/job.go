package insert

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// span is a range of a chunk's rows.
type span struct {
	c        *chunk
	from, to int
}

func (s span) rows() int   { return s.to - s.from }
func (s span) whole() bool { return s.from == 0 && s.to == s.c.rows }

// job is the rows of one INSERT.
type job struct {
	shape *shape
	spans []span
	// text sends RowBinary rows as JSON, for ClickHouse to read into the types
	// that the columns have by now.
	text bool
	// uncertain says that an INSERT of these rows may have succeeded.
	uncertain bool
}

func (j job) rows() int {
	n := 0
	for _, s := range j.spans {
		n += s.rows()
	}
	return n
}

// untouched reports whether the job is whole chunks none of whose rows are
// written or parked, so that they can go back to the queue.
func (j job) untouched() bool {
	return !j.uncertain && !slices.ContainsFunc(j.spans, func(s span) bool {
		return !s.whole() || s.c.left != s.c.rows
	})
}

// wholeChunks reports whether no row of the job's chunks is settled, though some
// may be written.
func (j job) wholeChunks() bool {
	return !slices.ContainsFunc(j.spans, func(s span) bool { return !s.whole() || s.c.left != s.c.rows })
}

// split divides the job into at most n jobs of about as many rows. It cuts
// between chunks as long as there are several, so that most chunks are done
// with as a whole; rows of one chunk must have been paired.
func (j job) split(n int) []job {
	if len(j.spans) == 1 {
		return j.splitRows(n)
	}
	per := (j.rows() + n - 1) / n
	var parts []job
	for at, rows := 0, 0; at < len(j.spans); at++ {
		if rows == 0 {
			parts = append(parts, job{shape: j.shape, text: j.text})
		}
		p := &parts[len(parts)-1]
		p.spans = append(p.spans, j.spans[at])
		if rows += j.spans[at].rows(); rows >= per {
			rows = 0
		}
	}
	if len(parts) > 1 {
		return parts
	}
	// One chunk outweighs the others: it goes alone.
	last := len(j.spans) - 1
	return []job{
		{shape: j.shape, text: j.text, spans: j.spans[:last]},
		{shape: j.shape, text: j.text, spans: j.spans[last:]},
	}
}

func (j job) splitRows(n int) []job {
	s := j.spans[0]
	per := (s.rows() + n - 1) / n
	var parts []job
	for from := s.from; from < s.to; from += per {
		part := span{c: s.c, from: from, to: min(from+per, s.to)}
		parts = append(parts, job{shape: j.shape, text: j.text, spans: []span{part}})
	}
	return parts
}

// around takes out row at (from 0) and returns what comes before it, the row,
// the rest of its chunk, and what comes after: its chunk is done with before
// the chunks behind it are looked at. Its chunk must have been paired.
func (j job) around(at int) []job {
	i, first := 0, 0
	for ; first+j.spans[i].rows() <= at; i++ {
		first += j.spans[i].rows()
	}
	s := j.spans[i]
	row := s.from + at - first
	before := append(slices.Clone(j.spans[:i]), span{s.c, s.from, row})
	var parts []job
	for _, spans := range [][]span{before, {{s.c, row, row + 1}}, {{s.c, row + 1, s.to}}, j.spans[i+1:]} {
		spans = slices.DeleteFunc(spans, func(s span) bool { return s.rows() == 0 })
		if len(spans) > 0 {
			parts = append(parts, job{shape: j.shape, text: j.text, spans: spans})
		}
	}
	return parts
}

// token names exactly these rows, so that a repeat of the INSERT is recognised
// by a table that remembers tokens.
func (j job) token() string {
	h := sha256.New()
	topic := j.spans[0].c.topic
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%s\x00", topic.Tenant, topic.Table, j.shape.columns)
	var b []byte
	for _, s := range j.spans {
		b = s.c.key.pos.AppendBinary(b[:0])
		b = binary.BigEndian.AppendUint64(b, uint64(s.from))
		b = binary.BigEndian.AppendUint64(b, uint64(s.to))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// format is the INSERT's input format.
func (j job) format() string {
	if j.text || j.shape.format == mq.FormatJSONCompactEachRow {
		return mq.FormatJSONCompactEachRow
	}
	return "RowBinaryWithNamesAndTypes"
}

// body reads the INSERT's data. Chunks' bodies are not copied.
func (j job) body() (*segments, error) {
	if j.text {
		rendered, err := j.render()
		return &segments{bufs: net.Buffers{rendered}, left: len(rendered)}, err
	}
	s := &segments{bufs: make(net.Buffers, 0, len(j.spans)+1)}
	s.add(j.shape.head)
	for _, sp := range j.spans {
		part := sp.c.slice(sp.from, sp.to)
		s.add(part)
		if j.shape.format == mq.FormatJSONCompactEachRow && part[len(part)-1] != '\n' {
			s.add([]byte{'\n'})
		}
	}
	return s, nil
}

// render turns the rows into JSONCompactEachRow.
func (j job) render() ([]byte, error) {
	var out []byte
	for _, s := range j.spans {
		for row := s.from; row < s.to; row++ {
			var err error
			if out, err = j.shape.layout.AppendCompact(out, s.c.slice(row, row+1)); err != nil {
				return nil, fmt.Errorf("rendering row %d of a chunk: %w", row, err)
			}
			out = append(out, '\n')
		}
	}
	return out, nil
}

// segments is a reader over byte slices that stay where they are.
type segments struct {
	bufs net.Buffers
	left int
}

func (s *segments) add(b []byte) {
	if len(b) > 0 {
		s.bufs = append(s.bufs, b)
		s.left += len(b)
	}
}

// Read implements io.Reader.
func (s *segments) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.bufs.Read(p)
	s.left -= n
	return n, err
}
