package stream

import (
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/record"
)

// maxLayouts bounds the cache of parsed column lists. A table has a few; past
// the bound everything is forgotten and parsed again when it is met.
const maxLayouts = 4096

// layouts caches what the Wh-Columns headers say.
type layouts struct {
	mu    sync.Mutex
	known map[string]*record.Layout
	// lines are those of chunks whose rows are lines of text.
	lines map[string]*record.Lines
}

// get parses columns once. A list that does not parse is not remembered.
func (l *layouts) get(columns string) (*record.Layout, error) {
	l.mu.Lock()
	layout, ok := l.known[columns]
	l.mu.Unlock()
	if ok {
		return layout, nil
	}
	// Rendering is in UTC, whatever zone a type is read in.
	layout, err := record.ParseLayout(columns, time.UTC)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxLayouts {
		l.known = make(map[string]*record.Layout)
	}
	l.known[columns] = layout
	return layout, nil
}

// readLines turns lines of text into rows of the layout that it returns.
func (l *layouts) readLines(columns string, body []byte, rows int) (*record.Layout, []byte, error) {
	lines, err := l.getLines(columns)
	if err != nil {
		return nil, nil, err
	}
	body, err = lines.AppendRows(make([]byte, 0, len(body)), body, rows)
	return lines.Layout(), body, err
}

// getLines is get for chunks whose rows are lines of text.
func (l *layouts) getLines(columns string) (*record.Lines, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lines, ok := l.lines[columns]; ok {
		return lines, nil
	}
	lines, err := record.ParseLines(columns, time.UTC)
	if err != nil {
		return nil, err
	}
	if l.lines == nil || len(l.lines) >= maxLayouts {
		l.lines = make(map[string]*record.Lines)
	}
	l.lines[columns] = lines
	return lines, nil
}
