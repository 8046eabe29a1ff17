package query

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
)

// A page ends at a row, and the next one begins behind it: behind the values by
// which the rows are ordered, its key. Those are the document's order and then
// the table's own, which costs nothing to speak of. Where rows are equal in all of
// it, and only there, they are told apart by a mark: a hash of all that is
// answered. Rows of one mark are the same to their reader, and are counted.

// How the parts of a key are written: in hexadecimal, but for these.
const (
	partSeparator = "."
	partNull      = "N"
	partNaN       = "X"
	partLong      = "L" // longer than maxKeyPart
)

const (
	// maxKeyPart bounds the text of one value of a key, in bytes.
	maxKeyPart = 1 << 10
	// maxKeys bounds the values of a key.
	maxKeys = 64
)

// sortKey is one value by which rows are ordered.
type sortKey struct {
	sql      string
	desc     bool
	typ      coltype.Type // without what unwrap takes off
	nullable bool
	computed bool
}

// text is the value as text, as the parameter of the same type reads it.
func (k sortKey) text() string {
	text := "toString(" + k.sql + ")"
	if k.typ.Kind == coltype.DateTime || k.typ.Kind == coltype.DateTime64 {
		text = "toString(" + k.sql + ", 'UTC')"
	}
	sql := "hex(" + text + ")"
	switch k.typ.Kind {
	case coltype.String, coltype.FixedString:
		sql = "if(length(" + text + ") > " + strconv.Itoa(maxKeyPart) + ", '" + partLong + "', " + sql + ")"
	case coltype.Float:
		sql = "if(isNaN(" + k.sql + "), '" + partNaN + "', hex(" + text + "))"
	}
	if k.nullable {
		sql = "ifNull(" + sql + ", '" + partNull + "')"
	}
	return sql
}

// param is the type of a parameter that the value is compared with.
func (k sortKey) param() string {
	switch k.typ.Kind {
	case coltype.String, coltype.Enum: // an Enum compares with a name as itself
		return "String"
	case coltype.DateTime:
		return "DateTime('UTC')"
	case coltype.DateTime64:
		return timestampType(k.typ.Precision)
	}
	return k.typ.Text
}

// same is the condition that a row has the value of a part of a key.
func (k sortKey) same(part, param string) string {
	switch part {
	case partNull:
		return k.sql + " IS NULL"
	case partNaN:
		return "isNaN(" + k.sql + ")"
	}
	return k.sql + " = " + param
}

// later is the condition that a row comes behind the value: of both directions, NaN
// is behind all other values, and NULL behind that.
func (k sortKey) later(part, param string) string {
	var any []string
	if part != partNull && part != partNaN {
		op := " > "
		if k.desc {
			op = " < "
		}
		any = append(any, k.sql+op+param)
		if k.typ.Kind == coltype.Float {
			any = append(any, "isNaN("+k.sql+")")
		}
	}
	if part != partNull && k.nullable {
		any = append(any, k.sql+" IS NULL")
	}
	if len(any) == 0 {
		return "0"
	}
	return strings.Join(any, " OR ")
}

// keyset is the order of pages.
type keyset struct {
	keys []sortKey
	// mark tells rows apart that are equal in keys; "" where none are.
	mark sortKey
	// column is the output that holds a row's key.
	column string
	// ordered is how many of the keys are the document's order.
	ordered int
	// total adds the mark to the order and the keys.
	total bool
}

// all are the keys with the mark, if it is used.
func (s *keyset) all() []sortKey {
	if s.total && s.mark.sql != "" {
		return append(slices.Clip(s.keys), s.mark)
	}
	return s.keys
}

// output is the column that holds a row's key.
func (s *keyset) output() output {
	var parts []string
	for _, k := range s.all() {
		parts = append(parts, k.text())
	}
	sql := "concat('', " + strings.Join(parts, ", '"+partSeparator+"', ") + ")"
	return output{name: s.column, sql: sql}
}

// volatile finds what has another value each time it is read.
var volatile = regexp.MustCompile(`(?i)\b(now|today|yesterday|rand|generate|fuzz|rowNumber|query|current|uptime|timezone|hostname|serverUUID|dictGet|joinGet|file)\w*\s*\(`)

// pageKeys finds the order of pages. It is nil, with the reason, when the document
// has none that a cursor can continue.
func (b *builder) pageKeys() (*keyset, *Error) {
	d := b.doc
	switch {
	case len(d.OrderBy) == 0:
		return nil, invalid("cursor: a cursor continues an order: name columns in order_by")
	case d.Totals, d.Compare != "", b.fill != nil:
		return nil, invalid("cursor: an answer with totals, a comparison or filled buckets is whole: it has no pages")
	case b.aggregates() && len(b.groupBy) == 0:
		return nil, invalid("cursor: an answer of one row has no pages")
	}
	s := &keyset{column: b.keyColumn}
	for i, o := range d.OrderBy {
		if err := b.addKey(s, fmt.Sprintf("order_by[%d]", i), o.Column, o.Dir == "desc"); err != nil {
			return nil, err
		}
	}
	s.ordered = len(s.keys)
	b.addTies(s)
	if len(s.keys) > maxKeys {
		return nil, invalid("cursor: the rows are ordered by %d values, and a cursor holds %d", len(s.keys), maxKeys)
	}
	if fault := b.stable(); fault != nil {
		return nil, fault
	}
	return s, nil
}

// addKey adds what an entry of order_by names.
func (b *builder) addKey(s *keyset, clause, name string, desc bool) *Error {
	if b.bucket.sql != "" && name == b.bucket.name {
		s.add(b.bucketKey(desc))
		return nil
	}
	for _, out := range b.selected {
		if out.of != nil && out.name == name {
			return invalidColumn(name, "%s: %q is an aggregation, which changes as rows arrive: a cursor continues an order by columns, groups and the time bucket", clause, excerpt.Of(name))
		}
	}
	col, err := b.cols.lookup(clause, name)
	if err != nil {
		return err
	}
	keys, ok := keysOf(col, desc)
	if !ok {
		return invalidColumn(name, "%s: a cursor cannot continue an order by the column %q of type %s", clause, excerpt.Of(name), col.plain)
	}
	for _, k := range keys {
		s.add(k)
	}
	return nil
}

// bucketKey is the start of a time bucket.
func (b *builder) bucketKey(desc bool) sortKey {
	return sortKey{sql: b.bucket.sql, desc: desc, typ: coltype.Type{Kind: coltype.DateTime64}, nullable: true}
}

// keysOf are the keys of a column: those of its members, for a tuple.
func keysOf(col column, desc bool) ([]sortKey, bool) {
	switch {
	case col.typ.Kind == coltype.Tuple && col.stored == col.plain:
		var keys []sortKey
		for i, elem := range col.typ.Elems {
			inside := column{sql: fmt.Sprintf("tupleElement(%s, %d)", col.sql, i+1), computed: col.computed}
			inside.typ, inside.plain, inside.stored = unwrap(elem)
			of, ok := keysOf(inside, desc)
			if !ok {
				return nil, false
			}
			keys = append(keys, of...)
		}
		return keys, len(keys) > 0
	case !col.typ.Ordered():
		return nil, false
	}
	return []sortKey{{sql: col.sql, desc: desc, typ: col.typ, nullable: col.stored != col.plain, computed: col.computed}}, true
}

// add adds a key, unless it is there: what is ordered by twice is by the first.
func (s *keyset) add(k sortKey) {
	if !slices.ContainsFunc(s.keys, func(known sortKey) bool { return known.sql == k.sql }) {
		s.keys = append(s.keys, k)
	}
}

// addTies adds what tells rows apart that the document's order does not: the other
// groups, or the columns by which the table is stored and a mark of the rest.
func (b *builder) addTies(s *keyset) {
	desc := s.keys[len(s.keys)-1].desc
	if b.aggregates() {
		if b.bucket.sql != "" {
			s.add(b.bucketKey(desc))
		}
		for _, name := range b.doc.GroupBy {
			if col, err := b.cols.lookup("group_by", name); err == nil && name != b.bucket.name {
				keys, ok := keysOf(col, desc)
				if !ok {
					s.mark = b.markOf(desc)
				}
				for _, k := range keys {
					s.add(k)
				}
			}
		}
		return
	}
	if !b.doc.Distinct {
		for _, name := range b.cols.table.SortingKey {
			if !b.cols.grant.Allows(name) {
				continue
			}
			col, err := b.cols.lookup("order_by", name)
			if err != nil {
				continue
			}
			keys, _ := keysOf(col, desc)
			for _, k := range keys {
				s.add(k)
			}
		}
	}
	s.mark = b.markOf(desc)
}

// markOf is the hash of all that is answered of a row, or by which it is grouped. A
// tuple, because a NULL among several values would be the hash of all.
func (b *builder) markOf(desc bool) sortKey {
	var parts []string
	if b.aggregates() {
		for _, sql := range b.groupBy {
			parts = append(parts, "toString("+sql+")")
		}
	} else {
		for _, out := range b.selected {
			parts = append(parts, b.hashable(out))
		}
	}
	return sortKey{sql: "cityHash64(tuple(" + strings.Join(parts, ", ") + "))", desc: desc, typ: coltype.Type{Kind: coltype.UInt, Text: "UInt64"}}
}

// hashable is an output as it is hashed: what has no hash in all versions is hashed
// as its text.
func (b *builder) hashable(out output) string {
	if out.untyped {
		return "toString(" + out.sql + ")"
	}
	index, ok := b.cols.table.Record.Lookup(out.name)
	if !ok {
		return out.sql
	}
	switch b.cols.compile(index).typ.Kind {
	case coltype.JSON, coltype.Dynamic, coltype.Variant, coltype.Other, coltype.Geo:
		return "toString(" + out.sql + ")"
	}
	return out.sql
}

// stable refuses columns that are computed from something else than the row.
func (b *builder) stable() *Error {
	names := slices.Concat(b.doc.Columns, b.doc.GroupBy)
	if b.doc.SelectAll {
		names = b.cols.readable()
	}
	for _, o := range b.doc.OrderBy {
		names = append(names, o.Column)
	}
	for _, name := range names {
		index, ok := b.cols.table.Record.Lookup(name)
		if !ok {
			index, _, ok = b.cols.prefix(name)
		}
		if !ok {
			continue
		}
		def := b.cols.table.Record.Columns()[index]
		if def.DefaultKind == record.DefaultAlias && volatile.MatchString(def.DefaultExpression) {
			return invalidColumn(name, "cursor: the column %q may have another value on the next page", excerpt.Of(name))
		}
	}
	return nil
}

// behind is the condition that a row comes behind the position, or has its very key
// when some of those rows are still to be sent. within is that it has its key.
func (b *builder) behind(keys []sortKey, p position) (sql string, err *Error) {
	parts, params, err := b.bindKey(keys, p.key)
	if err != nil {
		return "", err
	}
	for i := len(keys) - 1; i >= 0; i-- {
		k := keys[i]
		rest := sql
		if i == len(keys)-1 && p.skip > 0 {
			rest = k.same(parts[i], params[i])
		} else if rest != "" {
			rest = k.same(parts[i], params[i]) + " AND (" + rest + ")"
		}
		sql = k.later(parts[i], params[i])
		if rest != "" {
			sql += " OR " + rest
		}
	}
	sql = "(" + sql + ")"
	if first := keys[0]; !first.nullable && first.typ.Kind != coltype.Float {
		// It follows from the rest, and is cheaper to judge.
		op := " >= "
		if first.desc {
			op = " <= "
		}
		sql = first.sql + op + params[0] + " AND " + sql
	}
	return sql, nil
}

// within is the condition that a row has the key.
func (b *builder) within(keys []sortKey, key string) (sql string, err *Error) {
	parts, params, err := b.bindKey(keys, key)
	if err != nil {
		return "", err
	}
	same := make([]string, len(keys))
	for i, k := range keys {
		same[i] = k.same(parts[i], params[i])
	}
	return "(" + strings.Join(same, " AND ") + ")", nil
}

// bindKey binds the parts of a key.
func (b *builder) bindKey(keys []sortKey, key string) (parts, params []string, err *Error) {
	parts = strings.Split(key, partSeparator)
	if len(parts) != len(keys) {
		return nil, nil, cursorInvalid("belongs to the table as it was before its order changed")
	}
	params = make([]string, len(parts))
	for i, part := range parts {
		if part == partNull || part == partNaN {
			continue
		}
		text, fault := hex.DecodeString(part)
		if fault != nil {
			return nil, nil, cursorInvalid("does not say where the page ended")
		}
		name, err := b.values.bind("cursor", string(text))
		if err != nil {
			return nil, nil, err
		}
		params[i] = "{" + name + ":" + keys[i].param() + "}"
	}
	return parts, params, nil
}
