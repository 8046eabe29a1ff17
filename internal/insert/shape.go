package insert

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// shape is the format and columns of chunks: chunks of one shape go into one
// INSERT.
type shape struct {
	format  string
	columns string         // as in the chunks' headers
	layout  *record.Layout // nil for lines of text
	into    string         // the column list of an INSERT, with its parentheses
	head    []byte         // names and types, which precede RowBinary rows
}

type shapeKey struct{ format, columns string }

// maxShapes bounds the shapes remembered; beyond it they are worked out again.
const maxShapes = 4096

// shapes remembers the shapes seen, so that chunks share one.
type shapes struct {
	mu    sync.Mutex
	known map[shapeKey]*shape
}

func newShapes() *shapes { return &shapes{known: make(map[shapeKey]*shape)} }

func (s *shapes) get(h mq.Header) (*shape, error) {
	key := shapeKey{h.Format, h.Columns}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[key]; known != nil {
		return known, nil
	}
	made, err := newShape(h.Format, strings.Clone(h.Columns))
	if err != nil {
		return nil, err
	}
	if len(s.known) >= maxShapes {
		clear(s.known)
	}
	s.known[shapeKey{made.format, made.columns}] = made
	return made, nil
}

func newShape(format, columns string) (*shape, error) {
	if format != mq.FormatRowBinary && format != mq.FormatJSONCompactEachRow {
		return nil, fmt.Errorf("unknown format %q", format)
	}
	if format == mq.FormatJSONCompactEachRow {
		return newTextShape(columns)
	}
	// Rows are passed on, never rendered with a zone: any will do.
	layout, err := record.ParseLayout(columns, time.UTC)
	if err != nil {
		return nil, err
	}
	return &shape{
		format: format, columns: columns, layout: layout,
		into: columnList(layout.Names()), head: layout.AppendNamesAndTypes(nil),
	}, nil
}

// newTextShape needs no codecs: lines of text carry columns of any type.
func newTextShape(columns string) (*shape, error) {
	var parsed []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(columns), &parsed); err != nil {
		return nil, fmt.Errorf("reading column names: %w", err)
	}
	if len(parsed) == 0 {
		return nil, errors.New("reading column names: there are none")
	}
	names := make([]string, len(parsed))
	for i, c := range parsed {
		names[i] = c.Name
	}
	return &shape{format: mq.FormatJSONCompactEachRow, columns: columns, into: columnList(names)}, nil
}

func columnList(names []string) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clickhouse.QuoteIdent(name))
	}
	b.WriteByte(')')
	return b.String()
}
