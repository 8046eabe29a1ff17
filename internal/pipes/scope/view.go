package scope

import (
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/record"
)

// view reads what a view selects, of tables that are seen as any other.
func (n *narrowing) view(p *part, depth int) error {
	name := p.table.Name
	switch {
	case depth == maxDepth:
		return denied("views are more than %d deep", maxDepth)
	case p.grant.HidesRows():
		return denied("the view %s has a row filter, and its rows are made before it is judged: filter the tables below it", name)
	}
	if err := n.columns(p); err != nil {
		return err
	}
	selects, err := n.definition(name)
	if err != nil {
		return err
	}
	database := n.pool.Database()
	plain, ok := pipes.Unqualify(selects, database)
	if !ok || strings.Contains(selects, "{") {
		return denied("what the view %s selects cannot be told", name)
	}
	p.selects = plain
	return n.statement("the view "+name, selects, selects, depth+1, func(name string) (string, error) {
		local, ok := strings.CutPrefix(name, database+".")
		if !ok && strings.Contains(name, ".") || strings.Contains(local, ".") {
			return "", denied("a view reads the table %s of another database", name)
		}
		return local, nil
	})
}

// columns are those of a view that the caller may read.
func (n *narrowing) columns(p *part) error {
	for _, def := range p.table.Record.Columns() {
		if def.DefaultKind == record.DefaultNone && p.grant.Allows(def.Name) {
			p.columns = append(p.columns, def.Name)
		}
	}
	if len(p.columns) == 0 {
		return denied("the role may read no column of the view %s", p.table.Name)
	}
	return nil
}

// definition asks what a view selects. One that reads by the rights of somebody
// else is no matter of what is written there.
func (n *narrowing) definition(name string) (string, error) {
	var selects, create string
	err := n.pool.EachRow(n.ctx, "SELECT as_select, create_table_query FROM system.tables WHERE database = "+clickhouse.QuoteString(n.pool.Database())+
		" AND name = "+clickhouse.QuoteString(name)+" AND engine = 'View'", 2, func(row []string) error {
		selects, create = row[0], row[1]
		return nil
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("read what the view %s selects: %w", name, err)
	case selects == "":
		return "", denied("the view %s is not there", name)
	case len(selects) > maxText:
		return "", denied("the view %s is longer than %d bytes", name, maxText)
	case strings.Contains(create, "SQL SECURITY DEFINER"), strings.Contains(create, "SQL SECURITY NONE"):
		return "", denied("the view %s reads by the rights of another user", name)
	}
	return selects, nil
}
