package query

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/units"
)

// Moment is a time as a caller writes it: RFC 3339, a day, a number since 1970,
// a length of time back from now, or a word. The zero Moment is none.
type Moment struct {
	Text string
	// Number: it was written as a number, not as a string.
	Number bool
}

// UnmarshalStrict reads one JSON value.
func (m *Moment) UnmarshalStrict(raw json.RawMessage) error {
	if s, quoted := text(raw); quoted {
		*m = Moment{Text: s}
		return nil
	}
	if first := raw[0]; first != '-' && (first < '0' || first > '9') {
		return fmt.Errorf("want a string or a number, not %s", excerpt.Of(string(raw)))
	}
	*m = Moment{Text: string(raw), Number: true}
	return nil
}

func (m Moment) given() bool { return m.Text != "" }

// moment reads a time; days and lengths of the calendar are those of the zone.
// What counts from now is cut to the bucket of the settings, so that queries
// asked within one bucket are equal.
func (b *builder) moment(clause string, m Moment, zone *time.Location) (time.Time, *Error) {
	if !m.given() {
		return time.Time{}, nil
	}
	if !m.Number {
		if t, ok := b.relative(m.Text, zone); ok {
			return t, nil
		}
		if day, err := time.Parse(time.DateOnly, m.Text); err == nil {
			return startOfDay(zone, day.Year(), day.Month(), day.Day()), nil
		}
	}
	t, finer, err := record.ParseTime([]byte(m.Text), !m.Number, nil)
	if err != nil {
		if _, _, local := record.ParseTime([]byte(m.Text), !m.Number, time.UTC); local == nil {
			return t, invalid("%s: %s has no offset: end it in Z, or in one such as +02:00", clause, excerpt.Quoted(m.Text))
		}
		return t, invalid("%s: %s %s: want an RFC 3339 time, a day such as 2026-06-01, a number since 1970, a length of time back from now such as 30m, 7d or -1mo, or one of now, today, yesterday, tomorrow",
			clause, excerpt.Quoted(m.Text), err)
	}
	if finer {
		// No column is finer than a nanosecond: what begins after this time
		// begins at the next.
		t = t.Add(time.Nanosecond)
	}
	return t, nil
}

// relative reads a time that is told from now.
func (b *builder) relative(text string, zone *time.Location) (time.Time, bool) {
	now := b.opts.Now.In(zone)
	day := func(after int) (time.Time, bool) {
		return startOfDay(zone, now.Year(), now.Month(), now.Day()+after), true
	}
	switch text {
	case "now":
		return b.cut(now), true
	case "today":
		return day(0)
	case "yesterday":
		return day(-1)
	case "tomorrow":
		return day(1)
	}
	if back, err := units.ParseDuration(text); err == nil {
		return b.cut(now.Add(-back)), true
	}
	// Here d and w are days of the calendar, as months and years are.
	length, negative := strings.CutPrefix(text, "-")
	back, ok := parseSpan(length)
	if !ok || !negative && back.months == 0 {
		return time.Time{}, false
	}
	return b.cut(back.before(now)), true
}

// cut truncates a time to the bucket of the settings.
func (b *builder) cut(t time.Time) time.Time {
	bucket := int64(max(b.opts.BucketSeconds, 1))
	seconds := t.Unix()
	return time.Unix(seconds-modulo(seconds, bucket), 0).UTC()
}

// before is when the span before t began, in the zone of t: at the same time of
// day, when it goes back by days or months. A day that the month lacks is its
// last.
func (s calendarSpan) before(t time.Time) time.Time {
	if s.months > 0 || s.days > 0 {
		year, month, day := t.Date()
		first := time.Date(year, month-time.Month(s.months), 1, 0, 0, 0, 0, time.UTC)
		day = min(day, first.AddDate(0, 1, -1).Day())
		hour, minute, second := t.Clock()
		local := time.Date(first.Year(), first.Month(), day-int(s.days), hour, minute, second, 0, time.UTC)
		t = firstTimeOf(t.Location(), local.Unix()).Add(time.Duration(t.Nanosecond()))
	}
	return t.Add(-s.exact)
}
