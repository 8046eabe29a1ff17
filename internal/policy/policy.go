package policy

import (
	"errors"
	"iter"
	"maps"
	"slices"
)

// Reasons for which a role has no grant.
var (
	// ErrNoPolicy: no policy is adopted, so everyone is denied.
	ErrNoPolicy = errors.New("no policy is adopted: everyone is denied")
	// ErrNoRole: the caller has no role and the policy has no default role.
	ErrNoRole = errors.New("the request has no role, and the policy has no default role")
	// ErrNoGrant: the policy gives the role nothing of this kind on the table.
	ErrNoGrant = errors.New("the role has no such grant on this table")
)

// Policy is a compiled policies.json. It is immutable; a nil Policy is one
// that is not adopted.
type Policy struct {
	adopted     bool
	defaultRole string // "" none
	adminRole   string
	tables      map[string]map[string]entry // table, role
}

// entry is what one role may do with one table; a nil half grants nothing.
type entry struct {
	selects *SelectGrant
	inserts *InsertGrant
}

// Adopted reports whether there is a policy at all. While there is none,
// everyone is denied, the admin role included.
func (p *Policy) Adopted() bool { return p != nil && p.adopted }

// Role returns the role that holds for a caller whose token names tokenRole:
// tokenRole itself, or the default role when it is empty. It is not ok when
// that leaves no role.
func (p *Policy) Role(tokenRole string) (role string, ok bool) {
	if tokenRole == "" && p.Adopted() {
		tokenRole = p.defaultRole
	}
	return tokenRole, tokenRole != ""
}

// IsAdmin reports whether role is the admin role of an adopted policy.
func (p *Policy) IsAdmin(role string) bool {
	return p.Adopted() && role != "" && role == p.adminRole
}

// Select returns what role may read of table. An empty role stands for the
// default role. The error is ErrNoPolicy, ErrNoRole or ErrNoGrant.
func (p *Policy) Select(role, table string) (*SelectGrant, error) {
	e, admin, err := p.entry(role, table)
	switch {
	case err != nil:
		return nil, err
	case admin:
		return unrestrictedSelect(), nil
	case e.selects == nil || e.selects.columns.none():
		return nil, ErrNoGrant
	}
	return e.selects, nil
}

// Insert returns what role may insert into table. An empty role stands for the
// default role. The error is ErrNoPolicy, ErrNoRole or ErrNoGrant.
func (p *Policy) Insert(role, table string) (*InsertGrant, error) {
	e, admin, err := p.entry(role, table)
	switch {
	case err != nil:
		return nil, err
	case admin:
		return unrestrictedInsert(), nil
	case e.inserts == nil || e.inserts.columns.none():
		return nil, ErrNoGrant
	}
	return e.inserts, nil
}

// Selects lists what the role may read, by table in order; AllTables is every table
// that is not named. It lists nothing of a role that may read everything.
func (p *Policy) Selects(role string) iter.Seq2[string, *SelectGrant] {
	return func(yield func(string, *SelectGrant) bool) {
		role, ok := p.Role(role)
		if !p.Adopted() || !ok || p.IsAdmin(role) {
			return
		}
		for _, table := range slices.Sorted(maps.Keys(p.tables)) {
			if g := p.tables[table][role].selects; g != nil && !g.columns.none() && !yield(table, g) {
				return
			}
		}
	}
}

// InsertsAny reports whether the role may insert into any table.
func (p *Policy) InsertsAny(role string) bool {
	role, ok := p.Role(role)
	if !p.Adopted() || !ok {
		return false
	}
	for _, roles := range p.tables {
		if g := roles[role].inserts; g != nil && !g.columns.none() {
			return true
		}
	}
	return p.IsAdmin(role)
}

// SelectsAll reports whether the role may read some of every table, those that
// are not there yet as well: only then is a table that is not there called
// unknown.
func (p *Policy) SelectsAll(role string) bool {
	return p.all(role, func(e entry) bool { return e.selects != nil && !e.selects.columns.none() })
}

// InsertsAll is SelectsAll of inserts.
func (p *Policy) InsertsAll(role string) bool {
	return p.all(role, func(e entry) bool { return e.inserts != nil && !e.inserts.columns.none() })
}

// HidesRows reports whether the role has a row filter on any table.
func (p *Policy) HidesRows(role string) bool {
	role, ok := p.Role(role)
	if !p.Adopted() || !ok || p.IsAdmin(role) {
		return false
	}
	for _, roles := range p.tables {
		if selects := roles[role].selects; selects != nil && selects.filter != nil {
			return true
		}
	}
	return false
}

// ShowsCost reports whether the role may know what is counted over the whole
// tenant: it is the admin role, or show_cost is set wherever it may read.
func (p *Policy) ShowsCost(role string) bool {
	role, ok := p.Role(role)
	if !p.Adopted() || !ok {
		return false
	}
	shows := p.IsAdmin(role)
	for _, roles := range p.tables {
		switch selects := roles[role].selects; {
		case selects == nil || selects.columns.none():
		case !selects.showCost:
			return p.IsAdmin(role)
		default:
			shows = true
		}
	}
	return shows
}

func (p *Policy) all(role string, grants func(e entry) bool) bool {
	role, ok := p.Role(role)
	switch {
	case !p.Adopted() || !ok:
		return false
	case p.IsAdmin(role):
		return true
	case p.tables[AllTables] == nil:
		return false
	}
	for _, roles := range p.tables {
		if !grants(roles[role]) {
			return false
		}
	}
	return true
}

// entry finds the entry that holds for role on table. The entries of "*" hold
// only for tables that the policy does not name: naming a table takes it out of
// the wildcard for every role, so that a narrow entry can never be widened.
func (p *Policy) entry(role, table string) (e entry, admin bool, err error) {
	if !p.Adopted() {
		return entry{}, false, ErrNoPolicy
	}
	role, ok := p.Role(role)
	if !ok {
		return entry{}, false, ErrNoRole
	}
	if p.IsAdmin(role) {
		return entry{}, true, nil
	}
	roles, named := p.tables[table]
	if !named {
		roles = p.tables[AllTables]
	}
	return roles[role], false, nil
}
