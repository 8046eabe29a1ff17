package settings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Sources is what ClickHouse makes a table's columns and rows from.
type Sources struct {
	// Expressions are those of columns with a default, by column: DEFAULT,
	// MATERIALIZED and ALIAS.
	Expressions map[string]string
	// Select is the SELECT of a view, "" for a table with rows of its own.
	Select string
}

// Derived warns of what a role is kept from in a table of the live catalogue, and
// reads all the same in a column or a view that is made from it.
func Derived(s *Snapshot, columns map[string][]string, sources map[string]Sources) []Finding {
	roles := map[string]bool{}
	for _, entries := range s.document.Tables {
		for role := range entries {
			roles[role] = true
		}
	}
	d := &derivation{s: s, columns: columns, sources: sources, tables: slices.Sorted(maps.Keys(columns))}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		if s.Policy.IsAdmin(role) {
			continue
		}
		for _, table := range d.tables {
			if grant, err := s.Policy.Select(role, table); err == nil {
				d.columnsOf(role, table, grant)
				d.view(role, table, grant)
			}
		}
	}
	slices.SortStableFunc(d.findings, func(x, y Finding) int { return cmp.Compare(x.Path, y.Path) })
	return d.findings
}

// derivation follows what is made from what.
type derivation struct {
	s        *Snapshot
	tables   []string
	columns  map[string][]string
	sources  map[string]Sources
	findings []Finding
}

// columnsOf warns of columns that show a denied one of the same table.
func (d *derivation) columnsOf(role, table string, grant *policy.SelectGrant) {
	expressions := d.sources[table].Expressions
	for _, column := range d.columns[table] {
		if !grant.Allows(column) || expressions[column] == "" {
			continue
		}
		made := reach(column, func(name string) map[string]bool { return named(expressions[name]) })
		for _, denied := range d.denied(table, grant) {
			if made[denied] {
				d.warn(role, table, "the role may not read the column %q of %q, and reads the column %q, which is made from it", denied, table, column)
			}
		}
	}
}

// view warns of a view over a table that the role sees a part of.
func (d *derivation) view(role, view string, grant *policy.SelectGrant) {
	if d.sources[view].Select == "" {
		return
	}
	below := reach(view, func(name string) map[string]bool { return named(d.sources[name].Select) })
	all, star := map[string]bool{}, false
	for name := range below {
		mentioned := named(d.sources[name].Select)
		maps.Copy(all, mentioned)
		star = star || mentioned[everything]
	}
	for _, table := range d.tables {
		held, err := d.s.Policy.Select(role, table)
		if table == view || !below[table] || err != nil {
			continue
		}
		if held.Filtered() && !grant.Filtered() {
			d.warn(role, view, "the view %q reads %q without the role's row filter there", view, table)
		}
		for _, denied := range d.denied(table, held) {
			if all[denied] || star && grant.Allows(denied) {
				d.warn(role, view, "the role may not read the column %q of %q, and reads the view %q, which is made from it", denied, table, view)
			}
		}
	}
}

// denied are the columns of a table that the grant keeps from its role.
func (d *derivation) denied(table string, grant *policy.SelectGrant) []string {
	var names []string
	for _, column := range d.columns[table] {
		if !grant.Allows(column) {
			names = append(names, column)
		}
	}
	return names
}

func (d *derivation) warn(role, table, format string, args ...any) {
	if !has(d.s.document.Tables, table) {
		table = AllTables
	}
	path := strictjson.Join(strictjson.Join("tables", table), role) + ".select"
	d.findings = append(d.findings, Finding{
		Severity: SeverityWarning, File: filePolicies, Path: path, Message: fmt.Sprintf(format, args...),
	})
}

// reach returns start and all that can be reached from it.
func reach(start string, next func(name string) map[string]bool) map[string]bool {
	seen := map[string]bool{start: true}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for name := range next(queue[0]) {
			if !seen[name] {
				seen[name] = true
				queue = append(queue, name)
			}
		}
	}
	return seen
}

// everything stands for the star of a SELECT among the names of a text.
const everything = "*"

// named are the names that a text of ClickHouse's own writing mentions: more
// than it refers to, never less.
func named(sql string) map[string]bool {
	names := map[string]bool{}
	before := ""
	for i := 0; i < len(sql); {
		end := i + 1
		switch c := sql[i]; {
		case c == '\'' || c == '`' || c == '"':
			var text string
			text, end = quotedText(sql, i)
			if c != '\'' {
				names[text] = true
			}
		case nameByte(c):
			for end < len(sql) && nameByte(sql[end]) {
				end++
			}
			names[sql[i:end]] = true
		case c == '*' && (before == "" || strings.ContainsAny(before, ",.(") || strings.EqualFold(before, "SELECT") || strings.EqualFold(before, "DISTINCT")):
			names[everything] = true
		}
		if piece := strings.TrimSpace(sql[i:end]); piece != "" {
			before = piece
		}
		i = end
	}
	return names
}

// quotedText reads a quoted text and returns the offset behind it.
func quotedText(sql string, at int) (text string, end int) {
	var b strings.Builder
	quote := sql[at]
	for i := at + 1; i < len(sql); i++ {
		switch c := sql[i]; {
		case (c == '\\' || c == quote && i+1 < len(sql) && sql[i+1] == quote) && i+1 < len(sql):
			i++
			b.WriteByte(sql[i])
		case c == quote:
			return b.String(), i + 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), len(sql)
}

func nameByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}
