package embedded

import (
	"slices"
	"sync"
	"time"
)

const (
	// quietAfter is from when on a table's next chunk begins another stretch.
	quietAfter = 30 * time.Second
	// maxStretches bounds those of one table; the oldest become one.
	maxStretches = 32
)

// traffic knows when the tables of a queue had chunks, so that a reader is not told
// of a gap in a table of which nothing went. What was published before the queue
// was opened is not known: then a gap is told.
type traffic struct {
	mu sync.Mutex
	// unknown is up to which sequence nothing is known.
	unknown uint64
	tables  map[string][]stretch
}

// stretch holds all of a table's sequences that are neither before it nor after.
type stretch struct {
	first, last uint64
	at          time.Time // of last
}

// forget says that chunks up to seq may be anybody's.
func (t *traffic) forget(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq >= t.unknown {
		t.unknown = seq
		for table, known := range t.tables {
			if known[len(known)-1].last <= seq {
				delete(t.tables, table)
			}
		}
	}
}

// note says that seq is the table's.
func (t *traffic) note(table string, seq uint64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.tables[table]
	if n := len(known); n > 0 {
		if last := &known[n-1]; seq < last.last || now.Sub(last.at) < quietAfter {
			// Answers overtake each other.
			last.first, last.last, last.at = min(last.first, seq), max(last.last, seq), now
			return
		}
	}
	if len(known) == maxStretches {
		known[1].first = known[0].first
		known = slices.Delete(known, 0, 1)
	}
	if t.tables == nil {
		t.tables = make(map[string][]stretch)
	}
	t.tables[table] = append(known, stretch{seq, seq, now})
}

// among reports whether the table may have had chunks from sequence from up to and
// without until.
func (t *traffic) among(table string, from, until uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from <= t.unknown {
		return true
	}
	return slices.ContainsFunc(t.tables[table], func(s stretch) bool { return s.first < until && s.last >= from })
}
