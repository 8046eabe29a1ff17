package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// Build compiles doc for the table under the grant, which is bound to the
// caller's claims and to this table. The error is an *Error.
func Build(doc *Document, table *schema.Table, grant *policy.BoundSelect, o Options) (*Statement, error) {
	return newBuilder(doc, table, grant, o).build()
}

func (b *builder) build() (*Statement, error) {
	for _, step := range []func() *Error{
		b.check, b.checkTotals, b.capRows, b.resume, b.readPeriod, b.readComparison, b.outputs, b.rowRule, b.conditions, b.timeRange, b.groups, b.filterGroups, b.order, b.filled, b.pages,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s := &Statement{
		SQL:      b.sql(),
		Params:   b.values.params,
		Settings: settings(b.doc, b.cols.grant, b.opts),
		External: b.values.external,
		Cap:      b.cap,
		Totals:   b.doc.Totals,
		builder:  b,
	}
	if b.mixed {
		s.Settings["allow_suspicious_types_in_group_by"] = "1"
	}
	b.keepOrder(s.Settings)
	b.readLittle(s.Settings)
	if b.doc.Totals {
		addTotals(s.Settings)
	}
	return s, nil
}

// builder collects the clauses of one statement. What it holds as SQL is made
// of quoted names, parameters and words of its own.
type builder struct {
	doc    *Document
	opts   Options
	cols   *columns
	values *values

	selected []output
	bucket   output      // of time_bucket; its sql is "" without one
	period   *period     // of time_range; nil without one
	fill     *filling    // nil: empty buckets are no rows
	shown    []string    // names of outputs, where the statement has others
	compared *comparison // nil: the time range is all there is
	periods  condition   // of the rows of both periods, when there are two
	during   *condition  // nil: what is compiled sees every row
	where    []condition
	ruled    bool // where begins with the row rule
	mixed    bool // groups by values of several types
	judged   int  // conditions and groups of the caller's
	risky    bool // a condition that is judged behind WHERE may fail
	groupBy  []string
	keys     map[string]string // with totals: what is grouped by for a column
	having   []condition
	orderBy  []string
	cap      Cap
	// paged is the order of pages, nil without any.
	paged     *keyset
	keyColumn string
	binding   binding
	at        position // where the page begins; without a key, at the beginning
	skip      string   // an OFFSET, with rows of its key
	group     string   // a key: only rows that have it are answered
}

// output is one column of the answer.
type output struct {
	name string
	sql  string
	of   *Aggregation // nil for a column and the bucket
	// untyped values have no order that is sure.
	untyped bool
}

func newBuilder(doc *Document, table *schema.Table, grant *policy.BoundSelect, o Options) *builder {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	// Names that the qualifier must not be confused with: a column "a.b" is
	// read as a member of something called a, and an alias may be any text.
	taken := make([]string, 1, len(table.Record.Columns())+len(doc.Aggregations)+2)
	taken[0] = table.Name
	for _, def := range table.Record.Columns() {
		taken = append(taken, def.Name)
	}
	for _, a := range doc.Aggregations {
		taken = append(taken, a.Alias)
	}
	if doc.TimeBucket != nil {
		taken = append(taken, doc.TimeBucket.Alias)
	}
	v := &values{prefix: unusedName("wh_in", taken), param: "p", params: map[string]string{}}
	return &builder{
		doc: doc, opts: o, keyColumn: unusedName("wh_key", taken),
		cols:   &columns{table: table, grant: grant, qualifier: unusedName("wh", taken), zone: o.Zone, values: v},
		values: v,
	}
}

// check refuses what can be judged from the document as a whole.
func (b *builder) check() *Error {
	d := b.doc
	for _, list := range [...]struct {
		key    string
		length int
	}{
		{"columns", len(d.Columns)}, {"aggregations", len(d.Aggregations)}, {"filters", len(d.Filters)},
		{"having", len(d.Having)}, {"group_by", len(d.GroupBy)}, {"order_by", len(d.OrderBy)},
	} {
		if list.length > maxListed {
			return invalid("%s: a list of %d entries is longer than the %d that a query may have", list.key, list.length, maxListed)
		}
	}
	if d.Int64 != "" && d.Int64 != "number" && d.Int64 != "string" {
		return invalid(`int64: want "number" or "string", not %q`, excerpt.Of(d.Int64))
	}
	if d.Distinct && (len(d.Aggregations) > 0 || len(d.GroupBy) > 0) {
		return invalid("distinct: rows that are grouped or aggregated differ already; leave distinct out")
	}
	if !b.cols.any() {
		return &Error{Code: CodeColumnNotAllowed, Message: "this role may read no column of the table"}
	}
	return nil
}

func (b *builder) aggregates() bool { return len(b.doc.Aggregations) > 0 || len(b.doc.GroupBy) > 0 }

// outputs fills the SELECT list: columns, the time bucket, aggregations.
func (b *builder) outputs() *Error {
	names := b.doc.Columns
	if b.doc.SelectAll {
		if len(names) > 0 {
			return invalid("columns: select_all already reads every column; leave one of the two out")
		}
		names = b.cols.readable()
	}
	for i, name := range names {
		col, err := b.cols.lookup(fmt.Sprintf("columns[%d]", i), name)
		if err != nil {
			return err
		}
		b.selected = append(b.selected, b.read(name, col))
	}
	if err := b.timeBucket(); err != nil {
		return err
	}
	for i := range b.doc.Aggregations {
		clause, a := fmt.Sprintf("aggregations[%d]", i), &b.doc.Aggregations[i]
		if err := b.aggregated(clause, a); err != nil {
			return err
		}
	}
	return b.distinctNames()
}

// aggregated adds an aggregation to the outputs, and behind it that of the period
// it is compared with.
func (b *builder) aggregated(clause string, a *Aggregation) *Error {
	if b.compared != nil {
		return b.twice(clause, a)
	}
	out, err := b.aggregation(clause, a)
	b.selected = append(b.selected, out)
	return err
}

func (b *builder) distinctNames() *Error {
	if len(b.selected) == 0 {
		return invalid("the query selects nothing: name columns or aggregations, or set select_all")
	}
	seen := make(map[string]struct{}, len(b.selected))
	for _, out := range b.selected {
		if _, twice := seen[out.name]; twice {
			return invalidColumn(out.name, "two outputs are named %q: give one of them another alias", excerpt.Of(out.name))
		}
		seen[out.name] = struct{}{}
	}
	return nil
}

// groups fills GROUP BY. A name that is the bucket's means the bucket; an
// aggregation cannot be a group, so its alias never is one.
func (b *builder) groups() *Error {
	if b.bucket.sql != "" && b.aggregates() {
		b.bucket.sql = b.groupKey(b.bucket.sql, true)
		b.groupBy = append(b.groupBy, b.bucket.sql)
	}
	for i, name := range b.doc.GroupBy {
		if b.bucket.sql != "" && name == b.bucket.name {
			continue
		}
		col, err := b.cols.lookup(fmt.Sprintf("group_by[%d]", i), name)
		if err != nil {
			return err
		}
		sql := col.sql
		if col.untyped {
			sql, b.mixed = col.key(), true
		}
		if key := b.groupKey(sql, col.typ.Ordered()); !slices.Contains(b.groupBy, key) {
			b.groupBy = append(b.groupBy, key)
		}
	}
	return nil
}

// order fills ORDER BY with expressions, not aliases: an output's name stands
// for what the output is, whatever else is called the same.
func (b *builder) order() *Error {
	for i, o := range b.doc.OrderBy {
		clause := fmt.Sprintf("order_by[%d]", i)
		sql, err := b.sortKey(clause, o.Column)
		if err != nil {
			return err
		}
		sql = b.sortedLast(b.sortedWhole(o.Column, sql))
		switch o.Dir {
		case "", "asc":
			sql += " ASC"
		case "desc":
			sql += " DESC"
		default:
			return invalid(`%s: dir %q: want "asc" or "desc"`, clause, excerpt.Of(o.Dir))
		}
		b.orderBy = append(b.orderBy, sql)
	}
	return nil
}

func (b *builder) outputNames() []string {
	names := make([]string, len(b.selected))
	for i, out := range b.selected {
		names[i] = out.name
	}
	return names
}

// sortedWhole has ClickHouse sort all rows by a column that may hold NaN: when it
// skips those that can no longer be among the first, by a column as it is stored, it
// loses rows once it has met one.
func (b *builder) sortedWhole(name, sql string) string {
	index, ok := b.cols.owner(name)
	if ok && strings.Contains(b.cols.table.Record.Columns()[index].Type, "Float") {
		return "materialize(" + sql + ")"
	}
	return sql
}

func (b *builder) sortKey(clause, name string) (string, *Error) {
	for _, out := range b.selected {
		switch {
		case out.name != name:
		case out.untyped:
			return "", unordered(clause, name)
		default:
			return out.sql, nil
		}
	}
	if b.doc.Distinct {
		return "", invalidColumn(name, "%s: with distinct, rows are ordered by outputs, and %q is none", clause, excerpt.Of(name))
	}
	col, err := b.cols.lookup(clause, name)
	if err != nil && b.aggregates() {
		err.Message += ", and no output is called that" + nearest.OneOf(name, b.outputNames())
	}
	if err == nil && col.untyped {
		err = unordered(clause, name)
	}
	return b.asGrouped(col.sql), err
}

// usualStatement is room for the text of a statement, in bytes.
const usualStatement = 512

func (b *builder) sql() string {
	var s strings.Builder
	s.Grow(usualStatement)
	b.writeRows(&s)
	clause(&s, " ORDER BY ", b.orderBy, ", ")
	s.WriteString(b.limit(b.opts.Ahead))
	s.WriteString(" FORMAT " + b.format())
	return s.String()
}

// writeRows writes the statement without its order and its end.
func (b *builder) writeRows(s *strings.Builder) {
	if b.fill != nil {
		s.WriteString(b.fill.before)
		defer func() { s.WriteString(b.fill.after) }()
	}
	s.WriteString("SELECT ")
	if b.doc.Distinct {
		s.WriteString("DISTINCT ")
	}
	for i, out := range b.selected {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(out.sql + " AS " + clickhouse.QuoteIdent(out.name))
	}
	if b.paged != nil {
		key := b.paged.output()
		s.WriteString(", " + key.sql + " AS " + clickhouse.QuoteIdent(key.name))
	}
	b.writeSource(s)
	prewhere, where := b.filters()
	clause(s, " PREWHERE ", prewhere, " AND ")
	clause(s, " WHERE ", where, " AND ")
	clause(s, " GROUP BY ", b.groupBy, ", ")
	if b.doc.Totals {
		s.WriteString(" WITH TOTALS")
	}
	clause(s, " HAVING ", texts(b.having), " AND ")
}

func (b *builder) writeSource(s *strings.Builder) {
	s.WriteString(" FROM " + clickhouse.QuoteIdent(b.cols.table.Name) + " AS " + b.cols.qualifier)
}

func clause(s *strings.Builder, word string, parts []string, separator string) {
	if len(parts) > 0 {
		s.WriteString(word + strings.Join(parts, separator))
	}
}
