package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// SelectGrant is what a role may read of a table. It is immutable. What a
// caller may read is its BoundSelect: only that knows which rows.
type SelectGrant struct {
	columns            columnRule
	maxRows            int
	allowedAggregation map[string]struct{} // empty: every one
	deniedAggregation  map[string]struct{}
	settings           map[string]string
	fingerprint        string
	filter             *rule // nil: every row
	showCost           bool
}

// Allows reports whether the column may be referenced as a whole, in any clause.
// A column of which a part is denied may not.
func (g *SelectGrant) Allows(column string) bool { return g.columns.allows(column) }

// AllowsPartsOf reports whether parts of the column may be referenced: those that
// are neither a part of one of the denied paths, nor have one as a part. A path
// begins behind the column's name, with a dot or a bracket.
func (g *SelectGrant) AllowsPartsOf(column string) (denied []string, ok bool) {
	return g.columns.within[column], g.columns.allowsPartsOf(column)
}

// EveryColumn reports whether the grant covers all columns, those that the table
// may get as well: only then is a column that is not there called unknown.
func (g *SelectGrant) EveryColumn() bool { return g.columns.every() }

// Filtered reports whether the grant has a row filter.
func (g *SelectGrant) Filtered() bool { return g.filter != nil }

// ShowsCost reports whether the role may know what reading the table costs: it may
// read every row, and all of what ClickHouse reads for it, which holds the denied
// parts of a column; or it is trusted with counts of what it may not.
func (g *SelectGrant) ShowsCost() bool {
	return g.filter == nil && len(g.columns.within) == 0 || g.showCost
}

// MaxRows is the most rows of one answer; zero is no cap.
func (g *SelectGrant) MaxRows() int { return g.maxRows }

// AllowsAggregation reports whether the aggregation may be used. A rule about
// a family ("quantile") also holds for its members ("median").
func (g *SelectGrant) AllowsAggregation(fn string) bool {
	if holds(g.deniedAggregation, fn) {
		return false
	}
	return len(g.allowedAggregation) == 0 || holds(g.allowedAggregation, fn)
}

// RestrictsAggregations reports whether there are aggregations that may not be
// used.
func (g *SelectGrant) RestrictsAggregations() bool {
	return len(g.allowedAggregation)+len(g.deniedAggregation) > 0
}

// Settings returns the role's resource caps as ClickHouse settings. The caller
// owns the map.
func (g *SelectGrant) Settings() map[string]string { return maps.Clone(g.settings) }

// InsertGrant is what a role may insert into a table. It is immutable.
type InsertGrant struct {
	columns columnRule
	checks  []rule
}

// Allows reports whether records may carry the column.
func (g *InsertGrant) Allows(column string) bool { return g.columns.allows(column) }

// EveryColumn reports whether the grant covers all columns, those that the table
// may get as well: only then is a column that is not there called unknown.
func (g *InsertGrant) EveryColumn() bool { return g.columns.every() }

// Stamps reports whether a check names the column, and so gives it a value when
// a record does not.
func (g *InsertGrant) Stamps(column string) bool {
	return slices.ContainsFunc(g.checks, func(r rule) bool { return r.column == column })
}

// OperatorSelect is the grant of the operator key: everything.
func OperatorSelect() *SelectGrant { return unrestrictedSelect() }

// OperatorInsert is the grant of the operator key: everything.
func OperatorInsert() *InsertGrant { return unrestrictedInsert() }

func unrestrictedSelect() *SelectGrant {
	return &SelectGrant{columns: columnRule{all: true}, settings: map[string]string{}, fingerprint: "unrestricted"}
}

func unrestrictedInsert() *InsertGrant { return &InsertGrant{columns: columnRule{all: true}} }

func newSelectGrant(role string, doc *SelectDocument, filter *rule) *SelectGrant {
	return &SelectGrant{
		columns:            newColumnRule(doc.AllowColumns, doc.DenyColumns),
		maxRows:            doc.MaxRows,
		allowedAggregation: set(doc.AllowedAggregations),
		deniedAggregation:  set(doc.DeniedAggregations),
		settings:           capSettings(doc),
		fingerprint:        fingerprint(role, doc),
		filter:             filter,
		showCost:           doc.ShowCost,
	}
}

func newInsertGrant(doc *InsertDocument, checks []rule) *InsertGrant {
	return &InsertGrant{columns: newColumnRule(doc.AllowColumns, doc.DenyColumns), checks: checks}
}

// capSettings spells the resource caps as ClickHouse settings. Zero is left
// out: to ClickHouse it would mean "no limit" and lift the user's own.
func capSettings(doc *SelectDocument) map[string]string {
	settings := map[string]string{}
	if d := doc.MaxExecutionTime; d > 0 {
		settings["max_execution_time"] = strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	}
	if doc.MaxRowsToRead > 0 {
		settings["max_rows_to_read"] = strconv.FormatInt(doc.MaxRowsToRead, 10)
	}
	if doc.MaxMemoryUsage > 0 {
		settings["max_memory_usage"] = strconv.FormatInt(doc.MaxMemoryUsage, 10)
	}
	return settings
}

// fingerprint hashes the role and its rules; the order in which a list was
// written does not matter.
func fingerprint(role string, doc *SelectDocument) string {
	sorted := *doc
	for _, list := range []*[]string{
		&sorted.AllowColumns, &sorted.DenyColumns, &sorted.AllowedAggregations, &sorted.DeniedAggregations,
	} {
		*list = slices.Compact(slices.Sorted(slices.Values(*list)))
	}
	text, err := json.Marshal(struct {
		Role string
		Rule SelectDocument
	}{role, sorted})
	if err != nil {
		panic("policy: a select rule that does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
