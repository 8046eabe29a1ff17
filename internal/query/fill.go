package query

import (
	"fmt"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// Bounds of an answer whose empty buckets are rows.
const (
	maxBuckets = 10_000    // of one group
	maxFilled  = 1_000_000 // rows, before a limit
)

// fillRefusals are what ClickHouse is to say where it finds more to fill than may be:
// buckets, and rows.
func fillRefusals() [2]string {
	return [...]string{
		fmt.Sprintf("time_bucket.fill: there are more than %d buckets from the first to the last: take longer ones, or a time_range", maxBuckets),
		fmt.Sprintf("time_bucket.fill: the groups and their buckets are more than %d rows: take longer ones, or fewer groups", maxFilled),
	}
}

// Refusal is the refusal of a document that ClickHouse found while it was asked, by the
// message of its exception; nil when that says another thing.
func Refusal(message string) *Error {
	for _, refusal := range fillRefusals() {
		if strings.Contains(message, refusal) {
			return invalid("%s", refusal)
		}
	}
	return nil
}

// filling makes rows of empty buckets. The rows that there are become an inner
// statement that counts buckets: ClickHouse fills a row of whole numbers, which
// knows nothing of months and of clocks that are set. The outer one says when
// each bucket begins.
type filling struct {
	calendar *calendar
	column   column
	// first and last are the buckets to be filled between; one that is not known
	// is what each group has.
	first, last           int64
	knowsFirst, knowsLast bool
	// before and after stand around the inner statement.
	before, after string
}

// startFilling checks that the document can be filled, and between what.
func (b *builder) startFilling(col column, c *calendar, zone *time.Location) *Error {
	switch {
	case !b.aggregates():
		return invalid("time_bucket.fill: only a query that aggregates has empty buckets: name aggregations")
	case b.doc.Totals:
		return invalid("time_bucket.fill: totals are those of the buckets that there are; leave one of the two out")
	case len(b.doc.Having) > 0:
		return invalid("time_bucket.fill: a bucket that having leaves out would be filled as if it were empty; leave one of the two out")
	}
	b.fill = &filling{calendar: c, column: col}
	if p := b.period; p != nil && p.column.name == col.name && (p.since.IsZero() || p.until.IsZero() || p.since.Before(p.until)) {
		first, last := p.since, p.until
		if isDate(col) {
			first, last = sameDay(first, p.zone, zone), sameDay(last, p.zone, zone)
		}
		if !first.IsZero() {
			b.fill.first, b.fill.knowsFirst = c.index(c.start(first.Unix())), true
		}
		if !last.IsZero() {
			b.fill.last, b.fill.knowsLast = c.index(c.start(last.Add(-time.Nanosecond).Unix())), true
		}
	}
	if n := b.fill.last - b.fill.first + 1; b.fill.knowsFirst && b.fill.knowsLast && n > maxBuckets {
		return invalid("time_bucket.fill: the time range has %d buckets of %s, and a query may fill %d: take longer ones, or a shorter range", n, excerpt.Of(b.doc.TimeBucket.Every), maxBuckets)
	}
	return nil
}

// sameDay is when, in the zone of buckets, the first day begins that does not
// begin before t in the zone of the range.
func sameDay(t time.Time, of, zone *time.Location) time.Time {
	if t.IsZero() {
		return t
	}
	day := roundUpDay(t.In(of))
	return startOfDay(zone, day.Year(), day.Month(), day.Day())
}

// filled takes the statement that there is into the one that fills it.
func (b *builder) filled() *Error {
	if b.fill == nil {
		return nil
	}
	if col := b.fill.column; col.stored != col.plain {
		b.where = append(b.where, condition{sql: col.sql + " IS NOT NULL", mayFail: col.computed})
	}
	outer, groups, bucket := b.innerOutputs()
	order, err := b.outerOrder(bucket)
	if err != nil {
		return err
	}
	at := innerName(bucket)
	b.selected[bucket].sql += b.fillGuard(b.bucket.sql, groups)
	b.fill.before = "SELECT " + strings.Join(outer, ", ") + " FROM (SELECT * FROM ("
	b.fill.after = ") ORDER BY " + strings.Join(append(groups, at), ", ") + " WITH FILL" + b.fill.reach() + " STEP 1) AS " + b.cols.qualifier
	b.orderBy = order
	return nil
}

func innerName(i int) string { return fmt.Sprintf("c%d", i) }

// innerOutputs renames the outputs, adds groups that are not among them and has
// what is unknown of an empty bucket be NULL. It returns the outputs of the outer
// statement, the names of groups beside the bucket, and which output that is.
func (b *builder) innerOutputs() (outer, groups []string, bucket int) {
	for i := range b.selected {
		out := &b.selected[i]
		shown := b.cols.qualifier + "." + innerName(i)
		switch {
		case out.of != nil:
			if b.emptyIsNull(out.of) {
				out.sql = "toNullable(" + out.sql + ")"
			}
		case out.name == b.bucket.name:
			bucket, shown = i, instantSQL(b.nthSQL(shown, b.fill.calendar))
		default:
			groups = append(groups, innerName(i))
		}
		outer = append(outer, shown+" AS "+clickhouse.QuoteIdent(out.name))
		b.shown = append(b.shown, out.name)
		out.name = innerName(i)
	}
	for _, sql := range b.groupBy {
		if !b.selects(sql) {
			name := innerName(len(b.selected))
			groups = append(groups, name)
			b.selected = append(b.selected, output{name: name, sql: sql})
		}
	}
	return outer, groups, bucket
}

func (b *builder) selects(sql string) bool {
	for _, out := range b.selected {
		if out.sql == sql {
			return true
		}
	}
	return false
}

// emptyIsNull reports whether an aggregation says nothing of no rows: counts and
// sums are zero, lists are empty.
func (b *builder) emptyIsNull(a *Aggregation) bool {
	switch a.Fn {
	case "count", "count_distinct", "uniq", "sum":
		return false
	case ratio:
		return true
	}
	switch b.resultType(a).Kind {
	case coltype.Int, coltype.UInt, coltype.Float, coltype.BFloat16, coltype.Decimal, coltype.Bool, coltype.String, coltype.FixedString,
		coltype.UUID, coltype.IPv4, coltype.IPv6, coltype.Enum, coltype.Date, coltype.Date32, coltype.DateTime, coltype.DateTime64,
		coltype.Time, coltype.Time64:
		return true
	}
	return false
}

// outerOrder is the order of the filled rows: without one of the caller's, that
// of time.
func (b *builder) outerOrder(bucket int) ([]string, *Error) {
	if len(b.doc.OrderBy) == 0 {
		return []string{b.cols.qualifier + "." + innerName(bucket) + " ASC"}, nil
	}
	keys := make([]string, len(b.doc.OrderBy))
	for i, o := range b.doc.OrderBy {
		clause := fmt.Sprintf("order_by[%d]", i)
		at := -1
		for j, name := range b.shown {
			if name == o.Column {
				at = j
			}
		}
		if at < 0 {
			return nil, invalidColumn(o.Column, "%s: with time_bucket.fill, rows are ordered by outputs, and %q is none", clause, excerpt.Of(o.Column))
		}
		keys[i] = b.cols.qualifier + "." + innerName(at) + " ASC"
		if o.Dir == "desc" {
			keys[i] = b.cols.qualifier + "." + innerName(at) + " DESC"
		}
	}
	return keys, nil
}

// reach is what is filled, as ClickHouse takes it.
func (f *filling) reach() string {
	reach := ""
	if f.knowsFirst {
		reach = fmt.Sprintf(" FROM %d", f.first)
	}
	if f.knowsLast {
		reach += fmt.Sprintf(" TO %d", max(f.last, f.first)+1)
	}
	return reach
}

// fillGuard is a zero to be added to the number of a bucket. It fails where so
// much would be filled that it has to be refused, before any of it is.
func (b *builder) fillGuard(bucket string, groups []string) string {
	f := b.fill
	first, last := fmt.Sprintf("min(%s) OVER ()", bucket), fmt.Sprintf("max(%s) OVER ()", bucket)
	if f.knowsFirst {
		first = fmt.Sprintf("toInt64(%d)", f.first)
	}
	if f.knowsLast {
		last = fmt.Sprintf("toInt64(%d)", f.last)
	}
	guard := ""
	buckets := fmt.Sprintf("(%s - %s + 1)", last, first)
	if !f.knowsFirst || !f.knowsLast {
		guard = fmt.Sprintf(" + throwIf(%s > %d, '%s')", buckets, maxBuckets, fillRefusals()[0])
	}
	if len(groups) > 0 {
		var of []string
		for _, out := range b.selected {
			for _, name := range groups {
				if out.name == name {
					of = append(of, out.sql)
				}
			}
		}
		guard += fmt.Sprintf(" + throwIf(uniq(%s) OVER () * %s > %d, '%s')",
			strings.Join(of, ", "), buckets, maxFilled, fillRefusals()[1])
	}
	return guard
}

// indexSQL is the number of the bucket that begins at start.
func (b *builder) indexSQL(start string, c *calendar) string {
	if c.length == 0 {
		return fmt.Sprintf("(toInt64(indexOfAssumeSorted(%s, %s)) - 1)", b.numbers(c.starts), start)
	}
	if len(c.runs) == 1 {
		return fmt.Sprintf("intDiv(%s - %d, %d)", start, c.runs[0].from, c.length)
	}
	var froms, bases []int64
	for _, r := range c.runs {
		froms, bases = append(froms, r.from), append(bases, r.base)
	}
	list := b.numbers(froms)
	return fmt.Sprintf("(%s + intDiv(%s - roundDown(%s, %s) + %d, %d))", b.lookUp(start, froms, bases), start, start, list, c.length-1, c.length)
}

// nthSQL is the start of the bucket with a number, in seconds since 1970.
func (b *builder) nthSQL(index string, c *calendar) string {
	if c.length == 0 {
		return fmt.Sprintf("arrayElement(%s, %s + 1)", b.numbers(c.starts), index)
	}
	if len(c.runs) == 1 {
		return fmt.Sprintf("(%d + %s * %d)", c.runs[0].from, index, c.length)
	}
	var bases, froms, befores []int64
	for _, r := range c.runs {
		// The start that a run goes on from, and the next after it.
		bases, froms, befores = append(bases, r.base), append(froms, r.from), append(befores, r.from-modulo(r.from+r.phase, c.length))
	}
	return fmt.Sprintf("greatest(%s, %s + (%s - roundDown(%s, %s)) * %d)",
		b.lookUp(index, bases, froms), b.lookUp(index, bases, befores), index, index, b.numbers(bases), c.length)
}
