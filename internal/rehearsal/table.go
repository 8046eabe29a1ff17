package rehearsal

import (
	"fmt"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// Column is a column of a table as a test describes it, and as the route
// /v1/ops/schema shows it; what is of no use here may be left in.
type Column struct {
	Name              string `json:"name"`
	Type              string `json:"type"`
	DefaultKind       string `json:"default_kind"`
	DefaultExpression string `json:"default_expression"`
	Position          int    `json:"position"`
	IsNullable        bool   `json:"is_nullable"`
	Comment           string `json:"comment"`
}

// ParseColumn reads a column as CREATE TABLE writes it: a name and a type, as
// in "score Nullable(Int64)".
func ParseColumn(text string) (Column, error) {
	name, typ, found := strings.Cut(strings.TrimSpace(text), " ")
	c := Column{Name: strings.Trim(name, "`\""), Type: strings.TrimSpace(typ)}
	if !found || c.Type == "" {
		return Column{}, fmt.Errorf("column %q: want a name and a type, like \"score Int64\"", text)
	}
	if err := checkType(c.Type); err != nil {
		return Column{}, fmt.Errorf("column %q: %w", text, err)
	}
	return c, nil
}

// checkType refuses a type that is none, or none that is known: nothing could
// be said of its values.
func checkType(text string) error {
	t, err := coltype.Parse(text)
	if err != nil {
		return err
	}
	if t.Kind == coltype.Other {
		return fmt.Errorf("%q is not a known type", text)
	}
	return nil
}

// TableOf makes a table of columns; times without a zone are in UTC.
func TableOf(name string, columns []Column) *schema.Table {
	t := &schema.Table{Name: name}
	for i, c := range columns {
		t.Columns = append(t.Columns, record.Column{
			Name: c.Name, Type: c.Type, Position: i + 1, Comment: c.Comment,
			DefaultKind: record.DefaultKind(c.DefaultKind), DefaultExpression: c.DefaultExpression,
		})
	}
	t.Record = record.Compile(name, t.Columns, time.UTC)
	return t
}

// readable lists the columns of the table that a query could return.
func readable(table *schema.Table, allows func(string) bool) []string {
	names := []string{}
	for _, c := range table.Columns {
		if c.DefaultKind != record.DefaultEphemeral && allows(c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// insertable lists the columns of the table that a record could carry.
func insertable(table *schema.Table, allows func(string) bool) []string {
	names := []string{}
	for _, c := range table.Columns {
		computed := c.DefaultKind == record.DefaultMaterialized || c.DefaultKind == record.DefaultAlias
		if !computed && allows(c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}
