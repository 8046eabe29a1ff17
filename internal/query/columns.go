package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// columns is the one place where a column that a document names is checked
// against the table and the grant, and the one place that spells it in SQL.
type columns struct {
	table *schema.Table
	grant *policy.BoundSelect
	// qualifier names the table in the statement. Every column is written as
	// qualifier.column, which no alias of the caller's can capture.
	qualifier string
	// computes: a column that the document names is computed as it is read.
	computes bool
	zone     *time.Location // of times that carry none
	values   *values
	parts    map[string]column // those that were looked up
}

// column is a column that the caller may reference.
type column struct {
	name string
	sql  string
	typ  coltype.Type // without Nullable, LowCardinality and SimpleAggregateFunction
	// plain is typ as text, and stored is the same with its Nullable.
	plain, stored string
	codec         record.Codec // nil: the type has none
	// computed: the value may be computed as it is read.
	computed bool
	// untyped: a path of JSON that has no type. Each value has its own.
	untyped bool
}

// lookup checks a column, or a part of one, that the clause names.
func (c *columns) lookup(clause, name string) (column, *Error) {
	index, ok := c.table.Record.Lookup(name)
	if !ok {
		if col, found, err := c.part(clause, name); found {
			return col, err
		}
	}
	switch {
	case name == "" && !ok:
		return column{}, invalid("%s: name a column", clause)
	case name == policy.AllTables && (!ok || !c.grant.Allows(name)):
		return column{}, invalidColumn(name, `%s: %q is no column; "select_all": true reads every column`, clause, name)
	case !c.grant.Allows(name), !ok && !c.grant.EveryColumn():
		return column{}, c.denied(clause, name)
	case !ok:
		return column{}, c.unknown(clause, name)
	case !readable(c.table.Record.Columns()[index]):
		return column{}, invalidColumn(name, "%s: the column %q is EPHEMERAL and holds nothing to read", clause, excerpt.Of(name))
	}
	col := c.compile(index)
	c.computes = c.computes || col.computed
	return col, nil
}

func (c *columns) compile(index int) column {
	def := c.table.Record.Columns()[index]
	compiled := column{
		name:  def.Name,
		sql:   c.qualifier + "." + clickhouse.QuoteIdent(def.Name),
		codec: c.table.Record.Codec(index), computed: computed(def),
	}
	typ, err := coltype.Parse(def.Type)
	if err != nil {
		// A type that the grammar does not hold has no codec either.
		compiled.plain = def.Type
		return compiled
	}
	compiled.typ, compiled.plain, compiled.stored = unwrap(typ)
	return compiled
}

// shown is what is answered of the column. The state of an aggregate is no text, and
// some formats have no place for it: it is written in hexadecimal.
func (c column) shown() string {
	if c.typ.Kind == coltype.AggregateFunction {
		return "hex(" + c.sql + ")"
	}
	return c.sql
}

// typed is a value of a type that is not a column's own: what is inside of one.
func (c *columns) typed(name, sql string, t coltype.Type) column {
	inside := column{name: name, sql: sql}
	inside.typ, inside.plain, inside.stored = unwrap(t)
	// A type without a codec has nothing that it compares with.
	inside.codec, _ = record.NewCodec(t.Text, c.zone)
	return inside
}

// readable lists the names of the columns that the caller may read, in the
// table's order.
func (c *columns) readable() []string {
	defs := c.table.Record.Columns()
	names := make([]string, 0, len(defs))
	for _, def := range defs {
		if readable(def) && c.grant.Allows(def.Name) {
			names = append(names, def.Name)
		}
	}
	return names
}

// any reports whether the caller may read a column, or a part of one, at all.
func (c *columns) any() bool {
	return slices.ContainsFunc(c.table.Record.Columns(), func(def record.Column) bool {
		_, allowed := c.grant.AllowsPartsOf(def.Name)
		return allowed && readable(def)
	})
}

func readable(def record.Column) bool { return def.DefaultKind != record.DefaultEphemeral }

func (c *columns) unknown(clause, name string) *Error {
	return invalidColumn(name, "%s: the table has no column %q%s", clause, excerpt.Of(name), nearest.Hint(name, c.readable()))
}

// denied answers alike for a column that the caller may not read and for one
// that is not there: it does not tell which it is.
func (c *columns) denied(clause, name string) *Error {
	return &Error{
		Code: CodeColumnNotAllowed, Column: name,
		Message: fmt.Sprintf("%s: there is no column %q that this role may read%s", clause, excerpt.Of(name), nearest.Hint(name, c.readable())),
	}
}

// unwrap takes the wrappers off a type that do not change what a value is.
func unwrap(t coltype.Type) (inner coltype.Type, plain, stored string) {
	for {
		switch t.Kind {
		case coltype.LowCardinality, coltype.SimpleAggregateFunction:
			t = t.Elem()
		case coltype.Nullable:
			return t.Elem(), t.Elem().Text, t.Text
		default:
			return t, t.Text, t.Text
		}
	}
}

// unusedName returns a name that is the beginning of none of the given ones,
// so that it can be told from all of them whatever is put behind it.
func unusedName(name string, taken []string) string {
	for slices.ContainsFunc(taken, func(t string) bool { return strings.HasPrefix(t, name) }) {
		name += "_"
	}
	return name
}
