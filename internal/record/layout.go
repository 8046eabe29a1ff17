package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// Layout reads rows of one column set, as a chunk's header names them.
type Layout struct {
	names, types []string
	codecs       []Codec
	// keys are the names as JSON keys, with quotes and colon.
	keys [][]byte
}

// ParseLayout reads a ColumnSet's Header; zone is the server's. It fails when
// the text is no header, names no column, or names a type without a codec.
func ParseLayout(columns string, zone *time.Location) (*Layout, error) {
	parsed, err := parseHeader(columns)
	if err != nil {
		return nil, err
	}
	l := &Layout{}
	for _, c := range parsed {
		codec, err := NewCodec(c.Type, zone)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", quoted(c.Name), err)
		}
		l.add(c, codec)
	}
	return l, nil
}

// parseHeader reads the names and types of a ColumnSet's Header.
func parseHeader(columns string) ([]Column, error) {
	var parsed []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal([]byte(columns), &parsed); err != nil {
		return nil, fmt.Errorf("reading column names and types: %w", err)
	}
	if len(parsed) == 0 {
		return nil, errors.New("reading column names and types: there are none")
	}
	all := make([]Column, len(parsed))
	for i, c := range parsed {
		all[i] = Column{Name: c.Name, Type: c.Type, Position: i + 1}
	}
	return all, nil
}

// add appends a column.
func (l *Layout) add(c Column, codec Codec) {
	l.names, l.types = append(l.names, c.Name), append(l.types, c.Type)
	l.codecs = append(l.codecs, codec)
	l.keys = append(l.keys, append(AppendJSONString(nil, c.Name), ':'))
}

// Names returns the columns' names in the order of a row. It is shared, as are
// Types and Codecs: do not change it.
func (l *Layout) Names() []string { return l.names }

// Types returns the columns' types.
func (l *Layout) Types() []string { return l.types }

// Codecs returns the columns' codecs, none of them nil.
func (l *Layout) Codecs() []Codec { return l.codecs }

// AsSent lists the names of the columns whose values are shown as they were sent,
// of those that keep selects as in AppendObject.
func (l *Layout) AsSent(keep []int) []string {
	var names []string
	for i, codec := range l.codecs {
		if _, raw := codec.(*rawCodec); raw && (keep == nil || slices.Contains(keep, i)) {
			names = append(names, l.names[i])
		}
	}
	return names
}

// RowLen returns the length of the first row of body.
func (l *Layout) RowLen(body []byte) (int, error) {
	at := 0
	for i, codec := range l.codecs {
		n, err := codec.Skip(body[at:])
		if err != nil {
			return 0, fmt.Errorf("column %s: %w", quoted(l.names[i]), err)
		}
		at += n
	}
	return at, nil
}

// Ends appends the end offset of each row to dst. It fails when body does not
// hold exactly so many rows.
func (l *Layout) Ends(dst []int, body []byte, rows int) ([]int, error) {
	at := 0
	for row := range rows {
		n, err := l.RowLen(body[at:])
		if err != nil {
			return dst, fmt.Errorf("row %d of %d: %w", row+1, rows, err)
		}
		at += n
		dst = append(dst, at)
	}
	if at != len(body) {
		return dst, fmt.Errorf("%d bytes are left after %d rows", len(body)-at, rows)
	}
	return dst, nil
}

// FieldEnds appends the end offset of each field of a row to dst. It fails when
// row is not exactly one row.
func (l *Layout) FieldEnds(dst []int, row []byte) ([]int, error) {
	at := 0
	for i, codec := range l.codecs {
		n, err := codec.Skip(row[at:])
		if err != nil {
			return dst, fmt.Errorf("column %s: %w", quoted(l.names[i]), err)
		}
		at += n
		dst = append(dst, at)
	}
	if at != len(row) {
		return dst, fmt.Errorf("%d bytes are left after the row", len(row)-at)
	}
	return dst, nil
}

// AppendNamesAndTypes appends the header of RowBinaryWithNamesAndTypes.
func (l *Layout) AppendNamesAndTypes(dst []byte) []byte {
	dst = appendCount(dst, len(l.names))
	for _, name := range l.names {
		dst = append(appendCount(dst, len(name)), name...)
	}
	for _, typ := range l.types {
		typ = coltype.AsWritten(typ)
		dst = append(appendCount(dst, len(typ)), typ...)
	}
	return dst
}

// AppendNamesAndTypesLines appends the header of
// JSONCompactEachRowWithNamesAndTypes: a line of names and one of types.
func (l *Layout) AppendNamesAndTypesLines(dst []byte) []byte {
	for row, texts := range [...][]string{l.names, l.types} {
		for i, text := range texts {
			separator := byte(',')
			if i == 0 {
				separator = '['
			}
			if row == 1 {
				text = coltype.AsWritten(text)
			}
			dst = AppendJSONString(append(dst, separator), text)
		}
		dst = append(dst, ']', '\n')
	}
	return dst
}

// AppendObject appends a row as a JSON object, as ClickHouse prints it. Keep
// selects fields by their index in Names, in the order to print; nil is all.
func (l *Layout) AppendObject(dst, row []byte, keep []int, o RenderOptions) ([]byte, error) {
	if keep == nil {
		return l.appendFields(dst, row, '{', '}', o)
	}
	var few [64]int
	ends, err := l.FieldEnds(few[:0], row)
	if err != nil {
		return dst, err
	}
	out := append(dst, '{')
	for nth, i := range keep {
		start := 0
		if i > 0 {
			start = ends[i-1]
		}
		if nth > 0 {
			out = append(out, ',')
		}
		out = append(out, l.keys[i]...)
		if out, _, err = l.codecs[i].RenderJSON(out, row[start:ends[i]], o); err != nil {
			return dst, fmt.Errorf("column %s: %w", quoted(l.names[i]), err)
		}
	}
	return append(out, '}'), nil
}

// AppendCompact appends a row as a JSON array that ClickHouse reads back into
// the same values, NaN and the infinities included.
func (l *Layout) AppendCompact(dst, row []byte) ([]byte, error) {
	return l.appendFields(dst, row, '[', ']', lineOptions())
}

// appendFields appends all fields, with their names when opening is a brace.
func (l *Layout) appendFields(dst, row []byte, opening, closing byte, o RenderOptions) ([]byte, error) {
	out, at := append(dst, opening), 0
	for i, codec := range l.codecs {
		if i > 0 {
			out = append(out, ',')
		}
		if opening == '{' {
			out = append(out, l.keys[i]...)
		}
		var n int
		var err error
		if out, n, err = codec.RenderJSON(out, row[at:], o); err != nil {
			return dst, fmt.Errorf("column %s: %w", quoted(l.names[i]), err)
		}
		at += n
	}
	if at != len(row) {
		return dst, fmt.Errorf("%d bytes are left after the row", len(row)-at)
	}
	return append(out, closing), nil
}
