package policy

import "slices"

// columnRule says which columns a grant covers. Deny wins over allow.
type columnRule struct {
	all     bool // every column that is not denied
	denyAll bool
	allow   map[string]struct{}
	deny    map[string]struct{}
}

// newColumnRule compiles two lists; an empty allow list is every column, and
// so is one that holds "*".
func newColumnRule(allow, deny []string) columnRule {
	return columnRule{
		all:     len(allow) == 0 || slices.Contains(allow, AllTables),
		denyAll: slices.Contains(deny, AllTables),
		allow:   set(allow),
		deny:    set(deny),
	}
}

func (r columnRule) allows(column string) bool {
	if _, denied := r.deny[column]; denied || r.denyAll {
		return false
	}
	_, allowed := r.allow[column]
	return allowed || r.all
}

// every reports whether the rule covers all columns of any table.
func (r columnRule) every() bool { return r.all && !r.denyAll && len(r.deny) == 0 }

// none reports whether the rule covers no column of any table.
func (r columnRule) none() bool {
	if r.denyAll || r.all {
		return r.denyAll
	}
	for column := range r.allow {
		if r.allows(column) {
			return false
		}
	}
	return true
}

func set(names []string) map[string]struct{} {
	s := make(map[string]struct{}, len(names))
	for _, name := range names {
		s[name] = struct{}{}
	}
	return s
}
