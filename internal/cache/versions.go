package cache

import (
	"sync"
	"sync/atomic"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxMarks bounds the tables of one tenant that are remembered one by one.
const maxMarks = 4096

// Versions remember what this process told of writes: when each table was
// written last. Moments are counts of invalidations: what was read at a moment is
// current while no mark is later.
type Versions struct {
	clock atomic.Uint64

	mu      sync.RWMutex
	tenants map[tenant.ID]*marks
}

// marks are the moments of one tenant's writes.
type marks struct {
	all    uint64 // of every table
	tables map[string]uint64
}

// NewVersions makes Versions that know of no write.
func NewVersions() *Versions { return &Versions{tenants: map[tenant.ID]*marks{}} }

// Now is the moment up to which writes are known.
func (v *Versions) Now() uint64 { return v.clock.Load() }

// Current reports whether nothing was written to the tables after the moment.
func (v *Versions) Current(id tenant.ID, moment uint64, tables []string) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	m := v.tenants[id]
	if m == nil {
		return true
	}
	if m.all > moment {
		return false
	}
	for _, table := range tables {
		if m.tables[table] > moment {
			return false
		}
	}
	return true
}

// Mark notes a write to the tables, all of them for nil. The count goes up first:
// a reader that still takes the earlier moment may have read before the write.
func (v *Versions) Mark(ids []tenant.ID, tables []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	moment := v.clock.Add(1)
	for _, id := range ids {
		m := v.of(id)
		for _, table := range tables {
			m.tables[table] = moment
		}
		if tables == nil || len(m.tables) > maxMarks {
			// Forgetting which table it was means that it may have been any.
			m.all, m.tables = moment, map[string]uint64{}
		}
	}
}

func (v *Versions) of(id tenant.ID) *marks {
	m := v.tenants[id]
	if m == nil {
		m = &marks{tables: map[string]uint64{}}
		v.tenants[id] = m
	}
	return m
}
