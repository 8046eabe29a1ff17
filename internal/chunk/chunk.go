package chunk

import (
	"bytes"
	"fmt"

	"github.com/wavehouse/wavehouse/internal/record"
)

// MaxRows is how many rows a chunk has at most, enough that many of them share a
// write to disk.
const MaxRows = 1000

// MaxBytes is how many bytes of rows a chunk has at most, where the queue takes
// limit bytes for one: as much is left to its columns.
func MaxBytes(limit int) int { return min(512<<10, limit/2) }

// Chunk is an opened chunk. Its rows are as they came until Decode is called.
type Chunk struct {
	*Form
	// Body is the rows, unpacked. It may be the message's own: do not change it.
	Body []byte
	// Rows counts them, as the header does; it is not zero.
	Rows int
	// IDs are the rows' in the store of seen ids, where they are still to be
	// claimed; nil for others.
	IDs []string

	ends []int // where each row ends, once it is known
}

// Split finds the rows in the body, so that Slice can tell them apart. The
// error says that body and header do not pair.
func (c *Chunk) Split() (err error) {
	switch {
	case c.ends != nil:
	case c.Text():
		c.ends, err = lineEnds(c.Body, c.Rows)
	default:
		if c.ends, err = c.Layout.Ends(make([]int, 0, c.Rows), c.Body, c.Rows); err != nil {
			c.ends, err = nil, fmt.Errorf("the rows do not pair with the columns: %w", err)
		}
	}
	return err
}

func lineEnds(body []byte, rows int) ([]int, error) {
	ends := make([]int, 0, rows)
	for at := 0; at < len(body); {
		n := bytes.IndexByte(body[at:], '\n')
		if n < 0 {
			n = len(body) - at - 1
		}
		at += n + 1
		ends = append(ends, at)
	}
	if len(ends) != rows {
		return nil, fmt.Errorf("%d lines in a chunk of %d rows", len(ends), rows)
	}
	return ends, nil
}

// Slice returns the bytes of rows from to to-1. Unless they are all of them,
// Split or Decode has succeeded before.
func (c *Chunk) Slice(from, to int) []byte {
	if from == 0 && to == c.Rows {
		return c.Body
	}
	start := 0
	if from > 0 {
		start = c.ends[from-1]
	}
	return c.Body[start:c.ends[to-1]]
}

// Decode turns the body into rows that Layout reads, and finds them. It is
// called once. The error says that body and header do not pair.
func (c *Chunk) Decode() error {
	body := c.Body
	if c.Text() {
		var err error
		if body, err = c.lines.AppendRows(make([]byte, 0, len(body)), body, c.Rows); err != nil {
			return err
		}
	}
	ends, err := c.Layout.Ends(make([]int, 0, c.Rows), body, c.Rows)
	if err == nil {
		c.Body, c.ends = body, ends
	}
	return err
}

// Form is what the chunks of one format and column list have in common. There
// is one Form of them, as long as it is remembered.
type Form struct {
	// Format and Columns are as the headers say them.
	Format, Columns string
	// Layout reads the rows of a body, or those that Decode makes of its lines.
	// It is in UTC.
	Layout *record.Layout

	lines *record.Lines // nil unless the rows are lines of text
}

// Text reports whether the rows are lines of text.
func (f *Form) Text() bool { return f.lines != nil }
