package query

import (
	"math"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// period is the time range of a document: since is included, until is not. A
// zero time is no bound.
type period struct {
	column       column
	since, until time.Time
	// zone is that of the bounds, and of the days of a column of dates.
	zone *time.Location
}

// readPeriod reads the time range of the document, which may have none.
func (b *builder) readPeriod() *Error {
	r := b.doc.TimeRange
	if r == nil {
		return nil
	}
	col, err := b.timeColumn("time_range", r.Column)
	if err != nil {
		return err
	}
	p := period{column: col}
	if p.zone, err = loadZone("time_range.time_zone", r.TimeZone); err != nil {
		return err
	}
	if isDate(col) && r.TimeZone == "" {
		p.zone = b.opts.Zone
	}
	if !r.Since.given() && !r.Until.given() {
		return invalid("time_range: name since, until or both")
	}
	if p.since, err = b.moment("time_range.since", r.Since, p.zone); err != nil {
		return err
	}
	if p.until, err = b.moment("time_range.until", r.Until, p.zone); err != nil {
		return err
	}
	if r.Since.given() && r.Until.given() && p.since.After(p.until) {
		return invalid("time_range: since is later than until")
	}
	b.period = &p
	return nil
}

// timeRange adds since <= column < until to WHERE.
func (b *builder) timeRange() *Error {
	p := b.period
	switch {
	case p == nil:
		return nil
	case b.compared != nil:
		b.where = append(b.where, b.periods)
		return nil
	}
	if r := b.doc.TimeRange; r.Since.given() {
		if err := b.bound("time_range.since", r.Since, p.since, " >= "); err != nil {
			return err
		}
	}
	if r := b.doc.TimeRange; r.Until.given() {
		return b.bound("time_range.until", r.Until, p.until, " < ")
	}
	return nil
}

// bound adds one side of the range.
func (b *builder) bound(clause string, m Moment, t time.Time, op string) *Error {
	col := b.period.column
	typ, spelled, ok := roundUp(t, col.typ, b.period.zone)
	if !ok {
		return invalid("%s: %s is outside what the column %q can hold", clause, excerpt.Of(m.Text), excerpt.Of(col.name))
	}
	sql, err := b.bind(clause, col, op, typ, spelled)
	if err != nil {
		return err
	}
	b.where = append(b.where, condition{sql: sql, mayFail: col.computed})
	return nil
}

func modulo(n, m int64) int64 { return ((n % m) + m) % m }

// roundUp returns the first value of the column's precision that is not before
// t, as a parameter. Both "column >= t" and "column < t" mean the same with it,
// and ClickHouse compares values of one precision. A DateTime is compared as a
// DateTime64 and a Date as a Date32, whose ranges are wider.
func roundUp(t time.Time, typ coltype.Type, zone *time.Location) (param, text string, ok bool) {
	if typ.Kind == coltype.Date || typ.Kind == coltype.Date32 {
		day := roundUpDay(t.In(zone))
		return "Date32", day.Format(time.DateOnly), holds(day, 0)
	}
	precision := typ.Precision
	if typ.Kind == coltype.DateTime {
		precision = 0
	}
	if rest := t.Nanosecond() % tick(precision); rest != 0 {
		t = t.Add(time.Duration(tick(precision) - rest))
	}
	return timestampType(precision), timestampText(t, precision), holds(t, precision)
}

// tick is how many nanoseconds a time of the precision is from the next.
func tick(precision int) int { return int(math.Pow10(9 - precision)) }

// roundUpDay returns the first day that does not begin before t.
func roundUpDay(t time.Time) time.Time {
	year, month, day := t.Date()
	for startOfDay(t.Location(), year, month, day).Before(t) {
		day++
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
