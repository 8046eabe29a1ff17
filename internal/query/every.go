package query

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/units"
)

// maxMonths is the longest bucket of whole months: all that a column can hold.
const maxMonths = 400 * 12

// every is the length of a time bucket: months of the calendar, or seconds by
// the clock. One of the two is zero.
type every struct{ months, seconds int64 }

func (e every) wholeDays() bool { return e.seconds%daySeconds == 0 }
func (e every) weeks() bool     { return e.seconds > 0 && e.seconds%(7*daySeconds) == 0 }

// parseEvery reads a number of months, quarters or years ("1mo", "1q", "1y6mo"),
// or a duration of whole seconds.
func parseEvery(text string) (every, *Error) {
	if p, ok := parseSpan(text); ok && p.months > 0 {
		switch {
		case p.days > 0 || p.exact > 0:
			return every{}, invalid("time_bucket.every: %q mixes months with units of another length: months, quarters and years (mo, q, y) go with each other alone", excerpt.Of(text))
		case p.months > maxMonths:
			return every{}, invalid("time_bucket.every: %q is longer than 400 years", excerpt.Of(text))
		}
		return every{months: p.months}, nil
	}
	length, err := units.ParseDuration(text)
	if err != nil || length < time.Second || length%time.Second != 0 {
		return every{}, invalid("time_bucket.every: %q is neither a duration of whole seconds such as 5m, 1h or 1d nor a number of months, quarters or years such as 1mo, 1q or 1y", excerpt.Of(text))
	}
	return every{seconds: int64(length / time.Second)}, nil
}

// calendarSpan is a length of time by the calendar: months, then days, then a duration.
type calendarSpan struct {
	months, days int64
	exact        time.Duration
}

// calendarUnits are the units whose length depends on where they begin.
var calendarUnits = []struct {
	name         string
	months, days int64
}{{"mo", 1, 0}, {"q", 3, 0}, {"y", 12, 0}, {"d", 0, 1}, {"w", 0, 7}}

// maxCount bounds the number before a unit of the calendar.
const maxCount = 1_000_000

// parseSpan reads whole numbers with units of the calendar (y, q, mo, w, d),
// then a duration in the others.
func parseSpan(text string) (span calendarSpan, ok bool) {
	rest := text
	for rest != "" {
		months, days, after, ok := cutCalendarUnit(rest)
		if !ok {
			break
		}
		span.months, span.days, rest = span.months+months, span.days+days, after
		if span.months > maxCount || span.days > maxCount {
			return calendarSpan{}, false
		}
	}
	if rest == "" {
		return span, text != ""
	}
	exact, err := units.ParseDuration(rest)
	span.exact = exact
	return span, err == nil
}

func cutCalendarUnit(text string) (months, days int64, rest string, ok bool) {
	count, digits := int64(0), 0
	for ; digits < len(text) && text[digits]-'0' <= 9; digits++ {
		count = min(count*10+int64(text[digits]-'0'), maxCount+1)
	}
	end := digits
	for end < len(text) && text[end] >= 'a' && text[end] <= 'z' {
		end++
	}
	for _, u := range calendarUnits {
		if digits > 0 && text[digits:end] == u.name {
			return count * u.months, count * u.days, text[end:], true
		}
	}
	return 0, 0, text, false
}
