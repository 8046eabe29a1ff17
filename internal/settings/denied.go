package settings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// DeniedPaths warns of paths in deny_columns that do not do what they seem to, of
// tables in the live catalogue: types are those of the columns by table.
func DeniedPaths(s *Snapshot, types map[string]map[string]string) []Finding {
	var findings []Finding
	warn := func(path, format string, args ...any) {
		findings = append(findings, Finding{Severity: SeverityWarning, File: filePolicies, Path: path, Message: fmt.Sprintf(format, args...)})
	}
	for _, table := range slices.Sorted(maps.Keys(types)) {
		for role, entry := range s.document.Tables[table] {
			path := strictjson.Join(strictjson.Join("tables", table), role)
			eachPath(entry.Select, types[table], func(i int, column, rest string) {
				if err := query.DeniedPath(types[table][column], rest); err != nil {
					warn(strictjson.Index(path+".select.deny_columns", i), "this names no part of the column %q of type %s (%v), so the role may read nothing of it", column, types[table][column], err)
				}
			})
			if entry.Insert != nil {
				eachPath(&policy.SelectDocument{DenyColumns: entry.Insert.DenyColumns}, types[table], func(i int, column, _ string) {
					warn(strictjson.Index(path+".insert.deny_columns", i), "records are taken by whole columns, so the role may not insert %q at all", column)
				})
			}
		}
	}
	slices.SortStableFunc(findings, func(x, y Finding) int { return cmp.Compare(x.Path, y.Path) })
	return findings
}

// eachPath calls f for the denied names that begin with a column's and go on as a
// path into it does.
func eachPath(doc *policy.SelectDocument, columns map[string]string, f func(i int, column, rest string)) {
	if doc == nil {
		return
	}
	for i, name := range doc.DenyColumns {
		for rest := name; ; {
			column, _, ok := columnOf(rest, columns)
			if !ok {
				break
			}
			f(i, column, name[len(column):])
			rest = column
		}
	}
}

// columnOf finds the column that a path leads into: the one with the longest name.
func columnOf[T any](path string, columns map[string]T) (column, rest string, ok bool) {
	for end := len(path) - 1; end > 0; end-- {
		if path[end] != '.' && path[end] != '[' {
			continue
		}
		if _, ok := columns[path[:end]]; ok {
			return path[:end], path[end:], true
		}
	}
	return "", "", false
}
