package redis

import (
	"slices"
	"sync"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxPendingTables bounds the tables of one tenant that are kept one by one;
// beyond, all of them count as written. Tenants are as many as are served.
const maxPendingTables = 1024

// pending are the invalidations that did not reach the store.
type pending struct {
	mu      sync.Mutex
	tenants map[tenant.ID]*undelivered
	landed  chan struct{} // closed once nothing is pending
}

// undelivered is what one tenant's values must not be given out for.
type undelivered struct {
	all    bool
	tables map[string]uint64 // to the addition that named it last
	// added counts additions.
	added uint64
}

func newPending() *pending { return &pending{tenants: map[tenant.ID]*undelivered{}} }

// add keeps an invalidation, of every table for nil, and returns a channel that is
// closed once it has landed.
func (p *pending) add(ids []tenant.ID, tables []string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tenants) == 0 {
		p.landed = make(chan struct{})
	}
	for _, id := range ids {
		u := p.tenants[id]
		if u == nil {
			u = &undelivered{tables: map[string]uint64{}}
			p.tenants[id] = u
		}
		u.added++
		for _, table := range tables {
			u.tables[table] = u.added
		}
		if tables == nil || len(u.tables) > maxPendingTables {
			u.all, u.tables = true, map[string]uint64{}
		}
	}
	return p.landed
}

// blocks reports whether one of the tables waits to be told of.
func (p *pending) blocks(id tenant.ID, tables []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.tenants[id]
	if u == nil {
		return false
	}
	return u.all || slices.ContainsFunc(tables, func(table string) bool { return u.tables[table] > 0 })
}

// empty reports whether all was delivered.
func (p *pending) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tenants) == 0
}

// count is how many tables wait, a tenant's all as one.
func (p *pending) count() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.tenants {
		n += max(1, len(u.tables))
	}
	return n
}

// parcel is one delivery: the tenants that wait for the same.
type parcel struct {
	ids    []tenant.ID
	tables []string // nil for every table
	// added is what each tenant had when the parcel was made.
	added []uint64
}

// parcels returns what waits.
func (p *pending) parcels() []parcel {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []parcel
	at := map[string]int{}
	for id, u := range p.tenants {
		var tables []string
		name := "all"
		if !u.all {
			for table := range u.tables {
				tables = append(tables, table)
			}
			slices.Sort(tables)
			name = joined(tables)
		}
		i, known := at[name]
		if !known {
			i = len(all)
			at[name], all = i, append(all, parcel{tables: tables})
		}
		all[i].ids, all[i].added = append(all[i].ids, id), append(all[i].added, u.added)
	}
	return all
}

// joined tells lists apart.
func joined(tables []string) string {
	var name []byte
	for _, table := range tables {
		name = append(append(name, '|'), table...)
		name = append(name, 0)
	}
	return string(name)
}

// delivered forgets what a parcel held and was not added anew meanwhile.
func (p *pending) delivered(done parcel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, id := range done.ids {
		u := p.tenants[id]
		if u == nil || u.all && u.added != done.added[i] || u.all != (done.tables == nil) {
			continue
		}
		for table, added := range u.tables {
			if added <= done.added[i] {
				delete(u.tables, table)
			}
		}
		if u.added == done.added[i] || !u.all && len(u.tables) == 0 {
			delete(p.tenants, id)
		}
	}
	if len(p.tenants) == 0 && p.landed != nil {
		close(p.landed)
		p.landed = nil
	}
}
