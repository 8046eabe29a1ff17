package policy

import "slices"

// columnRule says which columns a grant covers. Deny wins over allow. What is
// denied may be a part of a column, written as a path from it: a column is
// covered only if all of it is.
type columnRule struct {
	all     bool // every column that is not denied
	denyAll bool
	allow   map[string]struct{}
	deny    map[string]struct{}
	// within are the paths behind each name that a denied one may be a part of.
	within map[string][]string
}

// newColumnRule compiles two lists; an empty allow list is every column, and
// so is one that holds "*".
func newColumnRule(allow, deny []string) columnRule {
	return columnRule{
		all:     len(allow) == 0 || slices.Contains(allow, AllTables),
		denyAll: slices.Contains(deny, AllTables),
		allow:   set(allow),
		deny:    set(deny),
		within:  within(deny),
	}
}

// within splits each name at every place where a column's name may end: which of
// them there is, only the table knows.
func within(names []string) map[string][]string {
	paths := map[string][]string{}
	for _, name := range names {
		for end := 1; end < len(name); end++ {
			if name[end] == '.' || name[end] == '[' {
				paths[name[:end]] = append(paths[name[:end]], name[end:])
			}
		}
	}
	return paths
}

func (r columnRule) allows(column string) bool {
	return len(r.within[column]) == 0 && r.allowsPartsOf(column)
}

// allowsPartsOf is allows but for what is denied within the column.
func (r columnRule) allowsPartsOf(column string) bool {
	if _, denied := r.deny[column]; denied || r.denyAll {
		return false
	}
	_, allowed := r.allow[column]
	return allowed || r.all
}

// every reports whether the rule covers all columns of any table.
func (r columnRule) every() bool { return r.all && !r.denyAll && len(r.deny) == 0 }

// none reports whether the rule covers no column of any table, nor a part of one.
func (r columnRule) none() bool {
	if r.denyAll || r.all {
		return r.denyAll
	}
	for column := range r.allow {
		if r.allowsPartsOf(column) {
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
