package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
)

// part checks a reference to a part of a column: attrs.key, tags[1]. It is not
// found when nothing of it is a column that the caller may read parts of: then
// it is answered for as any other name is.
func (c *columns) part(clause, name string) (col column, found bool, err *Error) {
	if known, ok := c.parts[name]; ok {
		return known, true, nil
	}
	index, rest, ok := c.prefix(name)
	if !ok {
		return column{}, false, nil
	}
	def := c.table.Record.Columns()[index]
	denied, allowed := c.grant.AllowsPartsOf(def.Name)
	if !allowed || !readable(def) {
		return column{}, false, nil
	}
	typ, parseErr := coltype.Parse(def.Type)
	if parseErr != nil {
		return column{}, true, invalidColumn(name, "%s: the column %q of type %s has no parts that can be named", clause, excerpt.Of(def.Name), excerpt.Of(def.Type))
	}
	steps, stepErr := parseSteps(rest)
	var to reached
	if stepErr == nil {
		to, stepErr = walk(typ, steps, c.zone, false)
	}
	switch {
	case len(denied) > 0 && (stepErr != nil || c.covered(typ, to.canonical(), denied)):
		// What is denied and what is not there are answered alike.
		return column{}, false, nil
	case stepErr != nil:
		return column{}, true, invalidColumn(name, "%s: %q: %s", clause, excerpt.Of(name), stepErr)
	}
	col, err = c.reach(clause, index, name, to)
	if err != nil {
		return col, true, err
	}
	if c.parts == nil {
		c.parts = map[string]column{}
	}
	c.parts[name] = col
	c.computes = c.computes || col.computed
	return col, true, nil
}

// owner finds the column that a name is of, or of a part of which.
func (c *columns) owner(name string) (index int, ok bool) {
	if index, ok := c.table.Record.Lookup(name); ok {
		return index, true
	}
	index, _, ok = c.prefix(name)
	return index, ok
}

// prefix finds the longest column name that a reference begins with.
func (c *columns) prefix(name string) (index int, rest string, ok bool) {
	for end := len(name) - 1; end > 0; end-- {
		if name[end] != '.' && name[end] != '[' {
			continue
		}
		if index, ok := c.table.Record.Lookup(name[:end]); ok {
			return index, name[end:], true
		}
	}
	return 0, "", false
}

// covered reports whether a path and one of the denied ones are the same or
// parts of each other. What is denied and fits nothing in the type denies all of
// the column's parts. Cases are not told apart.
func (c *columns) covered(typ coltype.Type, path, denied []string) bool {
	for _, rest := range denied {
		steps, err := parseSteps(rest)
		if err != nil {
			return true
		}
		to, err := walk(typ, steps, c.zone, true)
		if err != nil {
			return true
		}
		hidden := to.canonical()
		n := min(len(hidden), len(path))
		if slices.EqualFunc(hidden[:n], path[:n], strings.EqualFold) {
			return true
		}
	}
	return false
}

// reach writes the SQL of a part.
func (c *columns) reach(clause string, index int, name string, to reached) (column, *Error) {
	whole := c.compile(index)
	w := partWriter{columns: c, clause: clause, sql: whole.sql}
	if !c.extended(whole.name) {
		w.subcolumn = whole.sql
	}
	for _, a := range to.accesses {
		if err := w.access(a); err != nil {
			return column{}, err
		}
	}
	typ := to.typ
	if (len(w.guards) > 0 || to.nullable) && mayBeNull(typ) {
		_, plain, _ := unwrap(typ)
		if nullable, err := coltype.Parse("Nullable(" + plain + ")"); err == nil {
			typ = nullable
		}
		if len(w.guards) > 0 {
			w.sql = "if(" + strings.Join(w.guards, " AND ") + ", " + w.sql + ", NULL)"
		}
	}
	col := c.typed(name, w.sql, typ)
	col.untyped, col.computed = to.untyped, whole.computed
	return col, nil
}

// extended reports whether another column is called as a part of this one would
// be, so that ClickHouse might read it instead.
func (c *columns) extended(name string) bool {
	return slices.ContainsFunc(c.table.Record.Columns(), func(def record.Column) bool { return strings.HasPrefix(def.Name, name+".") })
}

// mayBeNull reports whether ClickHouse has NULL for values of the type. An array,
// a map or a tuple that is not there is an empty one.
func mayBeNull(t coltype.Type) bool {
	switch plain := t.Plain(); plain.Kind {
	case coltype.Interval, coltype.Time, coltype.Time64, coltype.BFloat16:
		return true
	default:
		return plain.Ordered()
	}
}

// partWriter writes accesses as SQL, of which names of the caller's are none.
type partWriter struct {
	*columns
	clause string
	sql    string
	// subcolumn is sql while it is the name of a column or of one inside of it,
	// which ClickHouse reads alone.
	subcolumn string
	// guards say that what is reached is there.
	guards []string
}

func (w *partWriter) access(a access) *Error {
	named := ""
	switch a.kind {
	case accessKey:
		key, err := w.values.bind(w.clause, a.key)
		if err != nil {
			return err
		}
		placeholder := "{" + key + ":" + a.keyType + "}"
		w.guards = append(w.guards, "mapContains("+w.sql+", "+placeholder+")")
		w.sql += "[" + placeholder + "]"
	case accessMember:
		w.sql = fmt.Sprintf("tupleElement(%s, %d)", w.sql, a.index)
	case accessElement:
		w.guards = append(w.guards, fmt.Sprintf("length(%s) >= %d", w.sql, max(a.index, -a.index)))
		w.sql += "[" + strconv.Itoa(a.index) + "]"
	case accessPath:
		if w.subcolumn != "" {
			named = w.subcolumn
			for _, key := range a.path {
				named += "." + clickhouse.QuoteIdent(key)
			}
			w.sql = named
			break
		}
		path, err := w.values.bind(w.clause, strings.Join(a.path, "."))
		if err != nil {
			return err
		}
		w.sql = "getSubcolumn(" + w.sql + ", {" + path + ":String})"
	}
	w.subcolumn = named
	return nil
}

// DeniedPath checks a path of deny_columns, from the dot or bracket behind the
// column's name, against the column's type. One that names nothing in it denies
// the whole column.
func DeniedPath(columnType, path string) error {
	typ, err := coltype.Parse(columnType)
	if err != nil {
		return err
	}
	steps, err := parseSteps(path)
	if err != nil {
		return err
	}
	_, err = walk(typ, steps, time.UTC, true)
	return err
}
