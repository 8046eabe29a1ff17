package query

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// previousSuffix is what the name of an output becomes for the earlier period.
const previousSuffix = "_previous"

// comparison is the period that the time range is compared with. Rows of both
// are read, and each aggregation is computed twice: over those of the one, and
// over those of the other.
type comparison struct {
	since, until time.Time
	// back is how far it is before the time range.
	back calendarSpan
	zone *time.Location
	// current and earlier hold for the rows of the two periods, of all that are
	// read.
	current, earlier condition
}

// readComparison reads what the time range is compared with.
func (b *builder) readComparison() *Error {
	if b.doc.Compare == "" {
		return nil
	}
	p := b.period
	switch {
	case p == nil || p.since.IsZero():
		return invalid("compare: a period is compared with an earlier one: name time_range.since")
	case len(b.doc.Aggregations) == 0:
		return invalid("compare: what is compared are aggregations: name some")
	case p.until.IsZero():
		p.until = b.cut(b.opts.Now)
	}
	if !p.since.Before(p.until) {
		return invalid("compare: the time range is empty")
	}
	c := comparison{zone: p.zone}
	if bucket := b.doc.TimeBucket; bucket != nil && b.doc.TimeRange.TimeZone == "" {
		zone, err := loadZone("time_bucket.time_zone", bucket.TimeZone)
		if err != nil {
			return err
		}
		c.zone = zone
	}
	if isDate(p.column) {
		// Days, whatever zone they are of, are as many seconds long.
		p.since, p.until, p.zone, c.zone = roundUpDay(p.since.In(p.zone)), roundUpDay(p.until.In(p.zone)), time.UTC, time.UTC
	}
	if err := c.read(b.doc.Compare, p); err != nil {
		return err
	}
	if isDate(p.column) && c.back.exact%(daySeconds*time.Second) != 0 {
		return invalid("compare: the column %q holds dates, so it is compared with what was whole days before", excerpt.Of(p.column.name))
	}
	if c.until.After(p.since) {
		return invalid("compare: the period that began %q before reaches into the time range: take a longer one, or a shorter range", excerpt.Of(b.doc.Compare))
	}
	b.compared = &c
	return b.bindPeriods()
}

// read finds the earlier period.
func (c *comparison) read(text string, p *period) *Error {
	switch text {
	case "previous":
		c.back = lengthOf(p.since.In(c.zone), p.until.In(c.zone))
	case "previous_year":
		c.back = calendarSpan{months: 12}
	default:
		back, ok := parseSpan(text)
		if !ok || back == (calendarSpan{}) {
			return invalid(`compare: %q is neither "previous" nor "previous_year" nor a length of time such as 7d, 1mo or 1y`, excerpt.Of(text))
		}
		c.back = back
	}
	c.since, c.until = c.back.before(p.since.In(c.zone)), c.back.before(p.until.In(c.zone))
	return nil
}

// lengthOf is how long a period is: in days, when it ends at the time of day at
// which it began, so that days on which clocks are set are days.
func lengthOf(since, until time.Time) calendarSpan {
	local := func(t time.Time) int64 {
		_, offset := t.Zone()
		return t.Unix() + int64(offset)
	}
	seconds := local(until) - local(since)
	if seconds%daySeconds == 0 && since.Nanosecond() == until.Nanosecond() {
		days := calendarSpan{days: seconds / daySeconds}
		if days.before(until).Equal(since) {
			return days
		}
	}
	return calendarSpan{exact: until.Sub(since)}
}

// bindPeriods has the statement read the rows of both periods.
func (b *builder) bindPeriods() *Error {
	p, c := b.period, b.compared
	var sides [4]string
	for i, side := range []struct {
		t  time.Time
		op string
	}{{p.since, " >= "}, {p.until, " < "}, {c.since, " >= "}, {c.until, " < "}} {
		typ, spelled, ok := roundUp(side.t, p.column.typ, p.zone)
		if !ok {
			return invalid("compare: %s is outside what the column %q can hold", side.t.UTC().Format(time.RFC3339), excerpt.Of(p.column.name))
		}
		sql, err := b.bind("compare", p.column, side.op, typ, spelled)
		if err != nil {
			return err
		}
		sides[i] = sql
	}
	both := "((" + sides[0] + " AND " + sides[1] + ") OR (" + sides[2] + " AND " + sides[3] + "))"
	b.periods = condition{sql: both, mayFail: p.column.computed}
	c.current, c.earlier = condition{sql: sides[0], mayFail: p.column.computed}, condition{sql: sides[3], mayFail: p.column.computed}
	return nil
}

// earlierStart has the rows of the earlier period fall into the buckets of the
// time range: into the last one whose beginning, moved back as the period is, is
// not after them.
func (b *builder) earlierStart(col column, c *calendar, start string, zone *time.Location) (string, *Error) {
	p := b.period
	if p.column.name != col.name {
		return "", invalid("compare: time_bucket and time_range are of different columns")
	}
	since, until := p.since, p.until
	if isDate(col) {
		since, until = sameDay(since, p.zone, zone), sameDay(until, p.zone, zone)
	}
	first, last := c.index(c.start(since.Unix())), c.index(c.start(until.Add(-time.Nanosecond).Unix()))
	if last-first >= maxBuckets {
		return "", invalid("compare: the time range has %d buckets of %s, and %d can be compared: take longer ones, or a shorter range", last-first+1, excerpt.Of(b.doc.TimeBucket.Every), maxBuckets)
	}
	// What is before the second bucket is of the first.
	from, to := []int64{firstTime}, []int64{c.nth(first)}
	for i := first + 1; i <= last; i++ {
		at := b.compared.moved(time.Unix(c.nth(i), 0), isDate(col), zone)
		// Where a month is shorter than the next, days of it are none of it.
		if at > from[len(from)-1] {
			from, to = append(from, at), append(to, c.nth(i))
		}
	}
	return "if(" + b.compared.current.sql + ", " + start + ", " + b.lookUp(b.secondsSQL(col, c.clocks), from, to) + ")", nil
}

// moved is when the bucket that begins at t began in the earlier period, in
// seconds since 1970.
func (c *comparison) moved(t time.Time, date bool, zone *time.Location) int64 {
	if !date {
		return c.back.before(t.In(c.zone)).Unix()
	}
	year, month, day := t.In(zone).Date()
	at := c.back.before(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
	return startOfDay(zone, at.Year(), at.Month(), at.Day()).Unix()
}

// twice adds an aggregation over each of the periods to the outputs.
func (b *builder) twice(clause string, a *Aggregation) *Error {
	defer func() { b.during = nil }()
	for _, during := range []*condition{&b.compared.current, &b.compared.earlier} {
		b.during = during
		out, err := b.aggregation(clause, a)
		if err != nil {
			return err
		}
		if during == &b.compared.earlier {
			out.name += previousSuffix
		}
		b.selected = append(b.selected, out)
	}
	return nil
}
