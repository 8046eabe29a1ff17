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
