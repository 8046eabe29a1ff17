package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxTables bounds a catalogue; a database with more is refused as a whole,
// because a table that is left out would look unknown.
const maxTables = 50_000

const (
	zoneQuery   = `SELECT timezone()`
	tablesQuery = `SELECT name, engine, sorting_key, if(match(engine, '(Collapsing|Replacing)MergeTree$'), engine_full, '') FROM system.tables
WHERE database = currentDatabase() AND NOT is_temporary ORDER BY name`
	columnsQuery = `SELECT table, name, type, toString(position), default_kind, default_expression, comment FROM system.columns
WHERE database = currentDatabase() ORDER BY table, position`
)

// Discover reads the tables of a tenant's database once.
func Discover(ctx context.Context, pools Pools, id tenant.ID) (*Catalogue, error) {
	pool, err := pools.Get(id)
	if err != nil {
		return nil, err
	}
	return discover(ctx, pool, nil, newInterner(), time.Now)
}

// discover reads the tables of the pool's database. Tables whose columns are
// those of previous keep their compiled form.
func discover(ctx context.Context, pool *clickhouse.Pool, previous *Catalogue, known *interner, now func() time.Time) (*Catalogue, error) {
	zone, err := readZone(ctx, pool, known)
	if err != nil {
		return nil, during("read the server's time zone", err)
	}
	tables, flags, err := readTables(ctx, pool)
	if err != nil {
		return nil, during("list tables", err)
	}
	if err := readColumns(ctx, pool, tables, flags); err != nil {
		return nil, during("list columns", err)
	}
	list := make([]*Table, 0, len(tables))
	for _, table := range tables {
		if len(table.Columns) == 0 {
			continue // it was there for the first question and not for the second
		}
		list = append(list, compiled(table, zone, previous, known))
	}
	return NewCatalogue(list, zone, now()), nil
}

// during says what was being read. Where there is no ClickHouse that does not
// matter.
func during(what string, err error) error {
	if errors.Is(err, clickhouse.ErrAway) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

func readZone(ctx context.Context, pool *clickhouse.Pool, known *interner) (*time.Location, error) {
	var name string
	if err := pool.EachRow(ctx, zoneQuery, 1, func(row []string) error {
		name = row[0]
		return nil
	}); err != nil {
		return nil, err
	}
	zone, err := known.zone(name)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	return zone, nil
}

// readTables returns the tables by name, and the columns that their engines read
// as flags.
func readTables(ctx context.Context, pool *clickhouse.Pool) (map[string]*Table, map[string]flagged, error) {
	tables, flags := make(map[string]*Table), make(map[string]flagged)
	return tables, flags, pool.EachRow(ctx, tablesQuery, 4, func(row []string) error {
		t := &Table{Name: row[0], Engine: row[1], SortingKey: columnsOf(row[2])}
		if isInner(t.Name) {
			return nil
		}
		if len(tables) == maxTables {
			return fmt.Errorf("the database has over %d tables", maxTables)
		}
		tables[t.Name] = t
		if f := flagOf(row[3]); f.flag != "" {
			flags[t.Name] = f
		}
		return nil
	})
}

// columnsOf reads a sorting key up to its first expression that is no column.
func columnsOf(key string) []string {
	var names []string
	for entry := range strings.SplitSeq(key, ", ") {
		name := strings.Trim(entry, "`")
		if name == "" || strings.ContainsAny(name, "`\\() ,") {
			break
		}
		names = append(names, name)
	}
	return names
}

// isInner tells the storage of a materialized view, which is nobody's table.
func isInner(name string) bool {
	return strings.HasPrefix(name, ".inner.") || strings.HasPrefix(name, ".inner_id.")
}

func readColumns(ctx context.Context, pool *clickhouse.Pool, tables map[string]*Table, flags map[string]flagged) error {
	return pool.EachRow(ctx, columnsQuery, 7, func(row []string) error {
		t := tables[row[0]]
		if t == nil {
			return nil
		}
		position, err := strconv.Atoi(row[3])
		if err != nil {
			return fmt.Errorf("position of %s: %w", row[1], err)
		}
		column := record.Column{
			// Types travel in JSON.
			Name: row[1], Type: coltype.InUTF8(row[2]), Position: position, DefaultKind: record.DefaultKind(row[4]),
			DefaultExpression: row[5], Comment: row[6],
		}
		if f := flags[t.Name]; f.column == column.Name {
			column.Flag = f.flag
		}
		t.Columns = append(t.Columns, column)
		return nil
	})
}

// compiled returns the table with its codecs, those of an earlier discovery
// when nothing has changed.
func compiled(t *Table, zone *time.Location, previous *Catalogue, known *interner) *Table {
	if previous != nil && previous.Zone.String() == zone.String() {
		if same, ok := previous.Table(t.Name); ok && same.Engine == t.Engine &&
			slices.Equal(same.Columns, t.Columns) && slices.Equal(same.SortingKey, t.SortingKey) {
			return same
		}
	}
	return known.compiled(t, zone)
}
