package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// The formats of rows, as a chunk's header names them.
const (
	formatRowBinary = "RowBinary"
	formatLines     = "JSONCompactEachRow"
)

// lineOptions render what ClickHouse reads of a line.
func lineOptions() RenderOptions { return RenderOptions{denormals: true, inLine: true} }

// linesOf returns what turns rows of the columns into lines, nil when each
// column has a codec of its own.
func (t *Table) linesOf(columns []int) *Layout {
	raw := false
	for _, i := range columns {
		raw = raw || t.Codec(i) == nil
	}
	if !raw {
		return nil
	}
	l := &Layout{}
	for _, i := range columns {
		l.add(t.columns[i], t.fields[i].codec)
	}
	return l
}

// renderLine turns the row into a line. Values that were judged are written as
// ClickHouse prints them, so that there is nothing to misread.
func (d *Decoder) renderLine() *Error {
	line, err := d.record.Set.lines.AppendCompact(d.line[:0], d.row)
	if err != nil {
		return notInLine(err)
	}
	if line = append(line, '\n'); len(line) > d.options.MaxRecordBytes {
		return tooLarge(d.options.MaxRecordBytes)
	}
	d.row, d.line = line, d.row
	return nil
}

// notInLine is the fault of a row with a value that ClickHouse would misread in a
// line, or that no line holds.
func notInLine(err error) *Error {
	if fault, ok := errors.AsType[*Error](err); ok {
		return &Error{Code: fault.Code, Message: err.Error()}
	}
	return malformed("%s", err)
}

func tooLarge(limit int) *Error {
	return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the record is over %d bytes when encoded", limit)}
}

// Lines reads rows of a column set whose Format is JSONCompactEachRow. It
// turns them into the rows of a Layout, which renders, slices and compares
// them like any others; values of types without a codec are shown as the JSON
// they are, and compare with nothing.
type Lines struct{ layout *Layout }

// ParseLines reads a ColumnSet's Header. It fails when the text is no header
// or names no column.
func ParseLines(columns string, zone *time.Location) (*Lines, error) {
	parsed, err := parseHeader(columns)
	if err != nil {
		return nil, err
	}
	l := &Lines{layout: &Layout{}}
	for _, c := range parsed {
		l.layout.add(c, newField(c, maker{zone: zone}).codec)
	}
	return l, nil
}

// Layout reads the rows that AppendRows makes.
func (l *Lines) Layout() *Layout { return l.layout }

// AppendRows appends the rows of a chunk's body. It fails when body does not
// hold exactly so many lines.
func (l *Lines) AppendRows(dst, body []byte, rows int) ([]byte, error) {
	out, at := dst, skipSpace(body, 0)
	for row := range rows {
		end, fault := scanValue(body, at, 0)
		if fault != fine {
			return dst, fmt.Errorf("line %d of %d: %s", row+1, rows, messages[fault])
		}
		var err error
		if out, err = l.appendRow(out, body[at:end]); err != nil {
			return dst, fmt.Errorf("line %d of %d: %w", row+1, rows, err)
		}
		at = skipSpace(body, end)
	}
	if at != len(body) {
		return dst, fmt.Errorf("%d bytes are left after %d lines", len(body)-at, rows)
	}
	return out, nil
}

func (l *Lines) appendRow(dst, line []byte) ([]byte, error) {
	if line[0] != '[' {
		return dst, fmt.Errorf("%s is not an array", excerpt.Of(line))
	}
	walk := elementsOf(line)
	for i, codec := range l.layout.codecs {
		value, ok := walk.next()
		if !ok {
			return dst, fmt.Errorf("%d values for %d columns", i, len(l.layout.codecs))
		}
		var err error
		if dst, err = codec.AppendJSON(dst, value); err != nil {
			return dst, fmt.Errorf("column %s: %w", quoted(l.layout.names[i]), err)
		}
	}
	if _, more := walk.next(); more {
		return dst, fmt.Errorf("more values than the %d columns", len(l.layout.codecs))
	}
	return dst, nil
}
