package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxTables bounds a catalogue; a database with more is refused as a whole,
// because a table that is left out would look unknown.
const maxTables = 50_000

const (
	zoneQuery   = `SELECT timezone()`
	tablesQuery = `SELECT name, engine FROM system.tables
WHERE database = currentDatabase() AND NOT is_temporary ORDER BY name`
	columnsQuery = `SELECT table, name, type, position, default_kind, default_expression, comment FROM system.columns
WHERE database = currentDatabase() ORDER BY table, position`
)

// Discover reads the tables of a tenant's database once.
func Discover(ctx context.Context, pools Pools, id tenant.ID) (*Catalogue, error) {
	return discover(ctx, pools, id, nil, newInterner(), time.Now)
}

// discover reads the tables of the tenant's database. Tables whose columns are
// those of previous keep their compiled form.
func discover(ctx context.Context, pools Pools, id tenant.ID, previous *Catalogue, known *interner, now func() time.Time) (*Catalogue, error) {
	pool, err := pools.Get(id)
	if err != nil {
		return nil, err
	}
	var (
		zone   *time.Location
		tables map[string]*Table
	)
	if err := pool.Native(func(conn driver.Conn) (err error) {
		if zone, err = readZone(ctx, conn, known); err != nil {
			return err
		}
		if tables, err = readTables(ctx, conn); err != nil {
			return err
		}
		return readColumns(ctx, conn, tables)
	}); err != nil {
		return nil, err
	}
	list := make([]*Table, 0, len(tables))
	for _, table := range tables {
		list = append(list, compiled(table, zone, previous, known))
	}
	return NewCatalogue(list, zone, now()), nil
}

func readZone(ctx context.Context, conn driver.Conn, known *interner) (*time.Location, error) {
	var name string
	if err := conn.QueryRow(ctx, zoneQuery).Scan(&name); err != nil {
		return nil, fmt.Errorf("read the server's time zone: %w", err)
	}
	zone, err := known.zone(name)
	if err != nil {
		return nil, fmt.Errorf("the server's time zone %q: %w", name, err)
	}
	return zone, nil
}

func readTables(ctx context.Context, conn driver.Conn) (map[string]*Table, error) {
	rows, err := conn.Query(ctx, tablesQuery)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	defer rows.Close()
	tables := make(map[string]*Table)
	for rows.Next() {
		t := &Table{}
		if err := rows.Scan(&t.Name, &t.Engine); err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		if isInner(t.Name) {
			continue
		}
		if len(tables) == maxTables {
			return nil, fmt.Errorf("the database has over %d tables", maxTables)
		}
		tables[t.Name] = t
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return tables, nil
}

// isInner tells the storage of a materialized view, which is nobody's table.
func isInner(name string) bool {
	return strings.HasPrefix(name, ".inner.") || strings.HasPrefix(name, ".inner_id.")
}

func readColumns(ctx context.Context, conn driver.Conn, tables map[string]*Table) error {
	rows, err := conn.Query(ctx, columnsQuery)
	if err != nil {
		return fmt.Errorf("list columns: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var table, kind string
		var position uint64
		var c record.Column
		if err := rows.Scan(&table, &c.Name, &c.Type, &position, &kind, &c.DefaultExpression, &c.Comment); err != nil {
			return fmt.Errorf("list columns: %w", err)
		}
		c.Position, c.DefaultKind = int(position), record.DefaultKind(kind)
		if t := tables[table]; t != nil {
			t.Columns = append(t.Columns, c)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list columns: %w", err)
	}
	return nil
}

// compiled returns the table with its codecs, those of an earlier discovery
// when nothing has changed.
func compiled(t *Table, zone *time.Location, previous *Catalogue, known *interner) *Table {
	if previous != nil && previous.Zone.String() == zone.String() {
		if same, ok := previous.Table(t.Name); ok && same.Engine == t.Engine && slices.Equal(same.Columns, t.Columns) {
			return same
		}
	}
	return known.compiled(t, zone)
}
