package query

import (
	"math"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/units"
)

// timeRange adds since <= column < until to WHERE.
func (b *builder) timeRange() *Error {
	r := b.doc.TimeRange
	if r == nil {
		return nil
	}
	col, err := b.timeColumn("time_range", r.Column)
	if err != nil {
		return err
	}
	if r.Since == "" && r.Until == "" {
		return invalid("time_range: name since, until or both")
	}
	since, err := b.bound("time_range.since", r.Since, col, " >= ")
	if err != nil {
		return err
	}
	until, err := b.bound("time_range.until", r.Until, col, " < ")
	if err != nil {
		return err
	}
	if r.Since != "" && r.Until != "" && since.After(until) {
		return invalid("time_range: since is later than until")
	}
	return nil
}

// bound adds one side of the range and returns its instant. An empty text is no
// bound.
func (b *builder) bound(clause, text string, col column, op string) (time.Time, *Error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := b.instant(clause, text)
	if err != nil {
		return t, err
	}
	typ, spelled, ok := roundUp(t, col.typ, b.opts.Zone)
	if !ok {
		return t, invalid("%s: %s is outside what the column %q can hold", clause, excerpt.Of(text), excerpt.Of(col.name))
	}
	sql, err := b.bind(clause, col, op, typ, spelled)
	if err != nil {
		return t, err
	}
	b.where = append(b.where, condition{sql: sql, mayFail: col.computed})
	return t, nil
}

// instant reads an RFC 3339 time, or a duration back from now that is cut to
// the bucket, so that queries asked within one bucket are equal.
func (b *builder) instant(clause, text string) (time.Time, *Error) {
	if back, err := units.ParseDuration(text); err == nil {
		bucket := int64(max(b.opts.BucketSeconds, 1))
		seconds := b.opts.Now.Add(-back).Unix()
		return time.Unix(seconds-modulo(seconds, bucket), 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, invalid("%s: %q is neither an RFC 3339 time nor a duration back from now such as 30m, 7d or 2w", clause, excerpt.Of(text))
	}
	return t, nil
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

// roundUpDay returns the date of t when t is a midnight, else the next one.
func roundUpDay(t time.Time) time.Time {
	year, month, day := t.Date()
	date := time.Date(year, month, day, 0, 0, 0, 0, t.Location())
	if date.Before(t) {
		day++
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
