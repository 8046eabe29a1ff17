package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Against holds the names in a snapshot of Validate against what there is: the
// columns of each of the tenant's tables.
func Against(s *Snapshot, columns map[string][]string) []Finding {
	a := &against{tables: slices.Sorted(maps.Keys(columns)), columns: columns}
	a.policies(s.document)
	a.config(s.Config)
	slices.SortStableFunc(a.findings, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Path, y.Path))
	})
	return a.findings
}

// against is one comparison.
type against struct {
	tables   []string
	columns  map[string][]string
	findings []Finding
}

func (a *against) policies(doc *policy.Document) {
	for _, table := range slices.Sorted(maps.Keys(doc.Tables)) {
		path := strictjson.Join("tables", table)
		if table == AllTables || !a.table(SeverityError, filePolicies, path, table) {
			continue
		}
		for _, role := range slices.Sorted(maps.Keys(doc.Tables[table])) {
			a.entry(strictjson.Join(path, role), table, doc.Tables[table][role])
		}
	}
}

func (a *against) entry(path, table string, e policy.EntryDocument) {
	if e.Select != nil {
		a.columnList(path+".select.allow_columns", table, e.Select.AllowColumns)
		a.deniedList(path+".select.deny_columns", table, e.Select.DenyColumns)
		a.rule(path+".select.filter", table, e.Select.Filter)
	}
	if e.Insert != nil {
		a.columnList(path+".insert.allow_columns", table, e.Insert.AllowColumns)
		a.deniedList(path+".insert.deny_columns", table, e.Insert.DenyColumns)
		a.rule(path+".insert.check", table, e.Insert.Check)
	}
}

func (a *against) rule(path, table string, rule json.RawMessage) {
	for _, c := range policy.RuleColumns(path, rule) {
		a.column(filePolicies, c.Path, table, c.Name)
	}
}

// config names tables that may be created later, so what is missing is only
// doubtful.
func (a *against) config(c *Config) {
	for _, table := range c.NamedTables() {
		for section, named := range map[string]bool{
			"dedupe": has(c.Dedupe.Tables, table), "dlq": has(c.DLQ.Tables, table), "ingest": has(c.Ingest.Tables, table),
		} {
			if named {
				a.table(SeverityWarning, fileConfig, strictjson.Join(section+".tables", table), table)
			}
		}
	}
	for _, table := range a.tables {
		a.idField(c, table)
	}
}

// idField looks for the column of a table's ids. A table without it remembers
// none, and takes no record at all where an id is required.
func (a *against) idField(c *Config, table string) {
	d := c.DedupeFor(table)
	if !d.Enabled || slices.Contains(a.columns[table], d.IDField) {
		return
	}
	path, severity := "dedupe", SeverityWarning
	if has(c.Dedupe.Tables, table) {
		path = strictjson.Join("dedupe.tables", table)
	}
	if d.RequireID {
		severity = SeverityError
	}
	message := fmt.Sprintf("table %q has no column %q: none of its records has an id", table, d.IDField)
	a.missing(severity, fileConfig, path, message, d.IDField, a.columns[table])
}

func (a *against) table(severity, file, path, table string) bool {
	if slices.Contains(a.tables, table) {
		return true
	}
	a.missing(severity, file, path, fmt.Sprintf("there is no table %q", table), table, a.tables)
	return false
}

func (a *against) columnList(path, table string, names []string) {
	for i, name := range names {
		if name != "*" {
			a.column(filePolicies, strictjson.Index(path, i), table, name)
		}
	}
}

// deniedList is columnList for names that may be paths into a column.
func (a *against) deniedList(path, table string, names []string) {
	known := map[string]struct{}{}
	for _, name := range a.columns[table] {
		known[name] = struct{}{}
	}
	for i, name := range names {
		if _, _, within := columnOf(name, known); name != "*" && !within {
			a.column(filePolicies, strictjson.Index(path, i), table, name)
		}
	}
}

func (a *against) column(file, path, table, name string) {
	if known := a.columns[table]; !slices.Contains(known, name) {
		a.missing(SeverityError, file, path, fmt.Sprintf("table %q has no column %q", table, name), name, known)
	}
}

func (a *against) missing(severity, file, path, message, name string, known []string) {
	a.findings = append(a.findings, Finding{Severity: severity, File: file, Path: path, Message: message + nearest.Hint(name, known)})
}
