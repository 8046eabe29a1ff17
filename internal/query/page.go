package query

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// Page is an answer that a cursor may continue. Its rows have a column more, the
// last, which holds their keys and is not the reader's.
type Page struct{ b *builder }

// Page is what the statement answers a page of; nil when it answers none.
func (s *Statement) Page() *Page {
	if s.builder == nil || s.builder.paged == nil {
		return nil
	}
	return &Page{s.builder}
}

// Column is the name of the column of keys.
func (p *Page) Column() string { return p.b.paged.column }

// MaxKey bounds a key, in bytes.
func (p *Page) MaxKey() int { return len(p.b.paged.all()) * (2*maxKeyPart + len(partSeparator)) }

// Apart reports whether rows with the keys of the last one and of the one behind it
// are in an order that every page finds again. If not, see Group.
func (p *Page) Apart(last, next string) bool {
	return last != next || p.b.paged.total || p.b.paged.mark.sql == ""
}

// Cursor is that of the page behind. The page ends with run rows of the key last,
// and all says that it has no others; next is the key of the row behind it. It is ""
// where the key is too long to be kept.
func (p *Page) Cursor(last, next string, run int64, all bool) string {
	at := position{key: last, total: p.b.paged.total, now: p.b.opts.Now}
	switch {
	case last == next:
		at.skip = run
		if all && last == p.b.at.key {
			at.skip += p.b.at.skip
		}
	case p.b.paged.total:
		// Behind rows that are told apart by their mark alone come some that are not.
		if rough := withoutMark(last); rough != withoutMark(next) {
			at.key, at.total = rough, false
		}
	}
	for part := range strings.SplitSeq(at.key, partSeparator) {
		if part == partLong {
			return ""
		}
	}
	return p.b.opts.Cursors.seal(p.b.binding, at)
}

func withoutMark(key string) string {
	return key[:max(0, strings.LastIndexByte(key, partSeparator[0]))]
}

// Group is a page of so many rows that have the key, in an order that every page
// finds again.
func (p *Page) Group(key string, rows int64) (*Statement, error) {
	o := p.b.opts
	doc := *p.b.doc
	doc.Limit, doc.Cursor = Count{N: rows, Set: true}, nil
	b := newBuilder(&doc, p.b.cols.table, p.b.cols.grant, o)
	b.group, b.binding = key, p.b.binding
	return b.build()
}

// resume opens the document's cursor. What the first page counted back from holds
// for all.
func (b *builder) resume() *Error {
	switch {
	case b.doc.Cursor == nil:
		return nil
	case b.opts.Cursors == nil || !b.opts.Ahead || !b.opts.Format.lines():
		return invalid("cursor: pages are answered as JSON or NDJSON alone: ask with Accept: application/x-ndjson, or leave cursor out and name a larger limit")
	case b.doc.Offset.N > 0:
		return invalid("cursor: a page begins where the one before ended; leave offset out")
	}
	b.binding = b.bindingOf()
	if *b.doc.Cursor == "" {
		return nil
	}
	var err *Error
	if b.at, err = b.opts.Cursors.open(b.binding, *b.doc.Cursor); err != nil {
		return err
	}
	b.opts.Now = b.at.now
	return nil
}

// bindingOf is what the cursors of the document belong to: the tenant and the table, what
// the caller may see, and the document with the types of the columns it is about.
func (b *builder) bindingOf() binding {
	doc := *b.doc
	doc.Limit, doc.Cursor = Count{}, nil
	text, err := json.Marshal(doc)
	if err != nil {
		panic("query: a document that does not marshal: " + err.Error()) // it was read from JSON
	}
	names := slices.Concat(doc.Columns, doc.GroupBy, b.cols.table.SortingKey)
	if doc.SelectAll {
		names = slices.Concat(b.cols.readable(), names)
	}
	for _, o := range doc.OrderBy {
		names = append(names, o.Column)
	}
	parts := []string{string(text)}
	for _, name := range names {
		if index, ok := b.cols.owner(name); ok {
			parts = append(parts, name, b.cols.table.Record.Columns()[index].Type)
		}
	}
	return binding{
		table:    bound(b.opts.Tenant, b.cols.table.Name),
		grant:    bound(b.cols.grant.Fingerprint()),
		document: bound(parts...),
	}
}

// pages orders the rows as a cursor needs it, and leaves out those before it.
func (b *builder) pages() *Error {
	if b.binding == (binding{}) {
		return nil
	}
	s, fault := b.pageKeys()
	if fault != nil {
		return fault
	}
	s.total = s.mark.sql != "" && (b.at.total || b.group != "")
	b.paged = s
	for _, k := range s.all()[s.ordered:] {
		dir := " ASC"
		if k.desc {
			dir = " DESC"
		}
		sql := b.sortedLast(k.sql)
		if k.typ.Kind == coltype.Float {
			sql = "materialize(" + k.sql + ")"
		}
		b.orderBy = append(b.orderBy, sql+dir)
	}
	mayFail := slices.ContainsFunc(s.keys, func(k sortKey) bool { return k.computed })
	switch {
	case b.group != "":
		sql, err := b.within(s.keys, b.group)
		b.where = append(b.where, condition{sql: sql, mayFail: mayFail})
		return err
	case b.at.key != "":
		keys := s.all()
		if b.at.rough {
			keys = s.keys[:s.ordered]
		}
		sql, err := b.behind(keys, b.at)
		if err != nil {
			return err
		}
		b.where = append(b.where, condition{sql: sql, mayFail: mayFail})
		if b.at.skip > 0 {
			b.skip, err = b.skipped()
		}
		return err
	}
	return nil
}

// readLittle has ClickHouse stop behind the last row of a page that it reads in the
// order in which rows are stored. Otherwise it reads ahead for all its threads, far
// more rows than are answered where only the first of the order is the table's.
func (b *builder) readLittle(settings map[string]string) {
	stored := b.cols.table.SortingKey
	if b.at.key == "" || len(stored) == 0 || b.paged.keys[0].sql != b.cols.qualifier+"."+clickhouse.QuoteIdent(stored[0]) {
		return
	}
	settings["read_in_order_use_buffering"] = "0"
	settings["query_plan_optimize_lazy_materialization"] = "0"
	if len(b.where) == 1 && b.storedOrder() {
		// No row that is read is left out but those of the first granule, so that a
		// second thread reads what nobody asked for.
		settings["max_threads"] = "1"
	}
}

// storedOrder reports whether rows are stored in the page's order, or its reverse.
func (b *builder) storedOrder() bool {
	stored, keys := b.cols.table.SortingKey, b.paged.all()
	for i, k := range keys {
		if i >= len(stored) || k.desc != keys[0].desc || k.sql != b.cols.qualifier+"."+clickhouse.QuoteIdent(stored[i]) {
			return false
		}
	}
	return true
}

// skipped leaves out the rows of the cursor's very key that were sent, or as many as
// there still are: merges may have made one of some.
func (b *builder) skipped() (string, *Error) {
	same, err := b.within(b.paged.all(), b.at.key)
	if err != nil {
		return "", err
	}
	var s strings.Builder
	prewhere, where := b.filters()
	fmt.Fprintf(&s, " OFFSET (SELECT least(%d, count()) FROM (SELECT 1", b.at.skip)
	b.writeSource(&s)
	clause(&s, " PREWHERE ", prewhere, " AND ")
	clause(&s, " WHERE ", append(slices.Clip(where), same), " AND ")
	fmt.Fprintf(&s, " LIMIT %d))", b.at.skip)
	return s.String(), nil
}
