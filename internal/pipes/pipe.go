package pipes

import (
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/claim"
)

// Set is the compiled pipes.json of one tenant. It is immutable; a nil Set has
// no pipes.
type Set struct {
	byName map[string]*Pipe
	names  []string // sorted
}

// Get returns the pipe of that name.
func (s *Set) Get(name string) (*Pipe, bool) {
	if s == nil {
		return nil, false
	}
	p, ok := s.byName[name]
	return p, ok
}

// All returns every pipe, by name.
func (s *Set) All() []*Pipe {
	if s == nil {
		return nil
	}
	all := make([]*Pipe, len(s.names))
	for i, name := range s.names {
		all[i] = s.byName[name]
	}
	return all
}

// Pipe is one compiled pipe. It is immutable.
type Pipe struct {
	definition Definition
	parameters []parameter
	stretches  []stretch
	writes     bool
	changes    bool
}

// parameter is a declared parameter, ready to be read.
type parameter struct {
	name     string
	typ      valueType
	required bool
	fallback any // of the type; nil is none
	has      bool
}

// stretch is a part of the statement and the placeholder behind it.
type stretch struct {
	sql string
	ref reference
}

// refKind says what a placeholder stands for.
type refKind uint8

const (
	refNone refKind = iota // the statement's end
	refParameter
	refClaim
	refTenant
)

type reference struct {
	kind      refKind
	parameter int // its index
	claim     claim.Path
	// fallback stands for the parameter when it is not given here.
	fallback any
	has      bool
}

// Definition returns the pipe as written. It must not be changed.
func (p *Pipe) Definition() Definition { return p.definition }

// Name returns the pipe's name.
func (p *Pipe) Name() string { return p.definition.Name }

// Writes reports whether the statement may write: its answers are never kept,
// shared or tried again.
func (p *Pipe) Writes() bool { return p.writes }

// Changes reports whether the statement may change the tables themselves.
func (p *Pipe) Changes() bool { return p.changes }

// SeesAsCaller reports whether the statement sees each table through the
// caller's grant on it.
func (p *Pipe) SeesAsCaller() bool { return p.definition.Policies == PoliciesCaller }

// Names reports whether the table is named as one that the answer depends on, or
// the statement has a word that is its name.
func (p *Pipe) Names(table string) bool {
	sql := p.definition.SQL
	return slices.Contains(p.definition.Reads, table) || slices.ContainsFunc(scan(sql), func(t token) bool {
		return (t.kind == word || t.kind == quotedName) && unquoteName(sql[t.start:t.end]) == table
	})
}

// Reads returns the tables that the definition names; nil when it names none.
func (p *Pipe) Reads() []string { return p.definition.Reads }

// TTL returns the pipe's own bound on how long answers are kept; it is not set
// when the definition leaves it out.
func (p *Pipe) TTL() (ttl time.Duration, set bool) {
	if p.definition.Cache.TTL == nil {
		return 0, false
	}
	return *p.definition.Cache.TTL, true
}

// AllowsRole reports whether the role is on the pipe's list.
func (p *Pipe) AllowsRole(role string) bool {
	return role != "" && slices.Contains(p.definition.AllowedRoles, role)
}

// Declares reports whether the pipe has a parameter of that name.
func (p *Pipe) Declares(name string) bool {
	return slices.ContainsFunc(p.parameters, func(q parameter) bool { return q.name == name })
}
