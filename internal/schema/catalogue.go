// Package schema discovers the tables of every tenant and keeps an immutable
// catalogue of each, refreshed for as long as the tenant is served.
package schema

import (
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/record"
)

// Table is one table, view or dictionary of a tenant's database.
type Table struct {
	Name    string
	Engine  string
	Columns []record.Column
	// SortingKey are the columns by which the rows are stored in order, as far as
	// they are columns and no expressions. None but those of MergeTree have any.
	SortingKey []string
	Record     *record.Table // compiled from Columns
}

// Catalogue is what one discovery found. It never changes.
type Catalogue struct {
	Zone     *time.Location // the server's time zone
	LoadedAt time.Time
	tables   map[string]*Table
	sorted   []*Table
}

// NewCatalogue holds the tables; it owns the slice from then on.
func NewCatalogue(tables []*Table, zone *time.Location, at time.Time) *Catalogue {
	c := &Catalogue{Zone: zone, LoadedAt: at, tables: make(map[string]*Table, len(tables)), sorted: tables}
	slices.SortFunc(c.sorted, func(a, b *Table) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range tables {
		c.tables[t.Name] = t
	}
	return c
}

// Table finds a table by its exact name.
func (c *Catalogue) Table(name string) (*Table, bool) {
	t, ok := c.tables[name]
	return t, ok
}

// Tables lists the tables by name. The caller does not change the slice.
func (c *Catalogue) Tables() []*Table { return c.sorted }
