package ingest

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// maxTenantDrift and maxDrift bound the unknown fields that are remembered, of
	// a tenant and of all: those that are seen first stay.
	maxTenantDrift = 1000
	maxDrift       = 50_000
	// maxFieldName bounds the bytes of a name that are kept.
	maxFieldName = 128
	// maxRequestDrift bounds the fields that are remembered of one request.
	maxRequestDrift = 256
)

// DriftField is a field that records had and their table has no column for.
type DriftField struct {
	Table, Name string
	// Cut says that Name is only the beginning.
	Cut bool
	// Type is of a column that would take all values that were seen, and Default
	// the literal for records without the field, "" for NULL.
	Type, Default string
	// Count is how many times the field was seen.
	Count       int64
	First, Last time.Time
}

// drift remembers unknown fields, per tenant and table.
type drift struct {
	mu      sync.Mutex
	tenants map[tenant.ID]map[driftKey]*driftEntry
	total   int
}

type driftKey struct{ table, name string }

type driftEntry struct {
	cut         bool
	shape       record.Shape
	count       int64
	first, last time.Time
}

// knows reports whether the field was seen before this request, or cannot be
// remembered.
func (d *drift) knows(id tenant.ID, table, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	fields := d.tenants[id]
	return fields[driftKey{table, name}] != nil || len(fields) >= maxTenantDrift || d.total >= maxDrift
}

// add takes what one request saw.
func (d *drift) add(id tenant.ID, table string, seen map[string]*driftEntry, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fields := d.tenants[id]
	if fields == nil {
		fields = make(map[driftKey]*driftEntry)
		if d.tenants == nil {
			d.tenants = make(map[tenant.ID]map[driftKey]*driftEntry)
		}
		d.tenants[id] = fields
	}
	for name, more := range seen {
		key := driftKey{table, name}
		entry := fields[key]
		if entry == nil {
			if len(fields) >= maxTenantDrift || d.total >= maxDrift {
				continue
			}
			entry = &driftEntry{cut: more.cut, first: now}
			fields[key] = entry
			d.total++
		}
		entry.shape.Merge(&more.shape)
		entry.count += more.count
		entry.last = now
	}
}

func (d *drift) forget(id tenant.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total -= len(d.tenants[id])
	delete(d.tenants, id)
}

// Drift lists the fields that this process saw in the tenant's records since it
// started and that their tables had no column for then, by table and name; at
// most 1,000.
func (g *Gate) Drift(id tenant.ID) []DriftField {
	g.drift.mu.Lock()
	list := make([]DriftField, 0, len(g.drift.tenants[id]))
	for key, e := range g.drift.tenants[id] {
		list = append(list, DriftField{
			Table: key.table, Name: key.name, Cut: e.cut, Type: e.shape.Type(), Default: e.shape.Default(), Count: e.count, First: e.first, Last: e.last,
		})
	}
	g.drift.mu.Unlock()
	slices.SortFunc(list, func(a, b DriftField) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// noteUnknown remembers the unknown fields of the current record until the request ends.
func (s *session) noteUnknown() {
	if s.unknown == nil {
		s.unknown = make(map[string]*driftEntry)
	}
	for _, u := range s.d.Unknown() {
		s.unknownFields++
		entry := s.unknown[string(u.Name)]
		if entry == nil {
			if len(s.unknown) == maxRequestDrift {
				continue
			}
			name := excerpt.Cut(u.Name, maxFieldName)
			entry = s.unknown[name]
			if entry == nil {
				entry = &driftEntry{cut: len(u.Name) > maxFieldName}
				s.unknown[name] = entry
			}
		}
		entry.count++
		entry.shape.Observe(u.Value)
	}
}

// anyNew reports whether the current record has an unknown field that was not seen
// before: its column may have been added a moment ago.
func (s *session) anyNew() bool {
	for _, u := range s.d.Unknown() {
		if s.unknown[string(u.Name)] == nil && !s.g.drift.knows(s.r.Tenant, s.r.Table.Name, excerpt.Cut(u.Name, maxFieldName)) {
			return true
		}
	}
	return false
}
