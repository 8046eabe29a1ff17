package record

import (
	"errors"
	"time"
)

// instant is a moment: seconds since 1970 and nanoseconds within the second.
type instant struct {
	seconds int64
	nanos   int64
	// finer is set when the text had digits other than zero beyond nanoseconds.
	finer bool
}

// badTime is why a text is no moment; "" when it is one.
type badTime string

const (
	timeIsOne      badTime = ""
	notATime       badTime = "is not a time"
	notADay        badTime = "names a day or time of day that does not exist"
	inTheGap       badTime = "does not exist in the column's time zone, where clocks skip it"
	unknownZone    badTime = "has no offset, and the column's time zone is not known here"
	looksLikeADay  badTime = "could be a date or a number of seconds: write YYYY-MM-DD"
	epochExponent  badTime = "has an exponent: write the number in plain digits"
	epochTooLarge  badTime = "is out of range"
	epochOutOfUnit badTime = "has a fraction, which only seconds may have, and too many digits for seconds"
)

// parseInstant reads RFC 3339, a date and time without an offset in zone, a
// date alone, which means its midnight, or a number since 1970.
func parseInstant(text []byte, quoted bool, zone *time.Location) (instant, badTime) {
	if len(text) > 10 && text[4] == '-' && text[7] == '-' {
		return parseDateTime(text, zone)
	}
	if d, rest, ok := cutDate(text); ok && len(rest) == 0 {
		if !d.valid() {
			return instant{}, notADay
		}
		return inZone(d, 0, zone)
	}
	return parseEpoch(text, quoted)
}

// ParseTime reads a time as a column of times does: RFC 3339, a date, with or
// without a time of day, in zone, or a number since 1970, which quoted tells from
// the same digits as a JSON number. A nil zone takes no text without an offset.
// finer is set when the text has digits beyond nanoseconds. The error says what
// the text is not, and does not repeat it.
func ParseTime(text []byte, quoted bool, zone *time.Location) (at time.Time, finer bool, err error) {
	t, bad := parseInstant(text, quoted, utcOf(zone))
	if bad != timeIsOne {
		return time.Time{}, false, errors.New(string(bad))
	}
	return time.Unix(t.seconds, t.nanos).UTC(), t.finer, nil
}

// parseDateTime reads YYYY-MM-DD[T ]hh:mm[:ss[.f]][Z|±hh:mm|±hhmm|±hh].
func parseDateTime(text []byte, zone *time.Location) (instant, badTime) {
	d, rest, ok := cutDate(text)
	if !ok || rest[0] != 'T' && rest[0] != ' ' && rest[0] != 't' {
		return instant{}, notATime
	}
	second, rest, ok := cutClock(rest[1:])
	if !ok {
		return instant{}, notATime
	}
	var t instant
	if len(rest) > 0 && rest[0] == '.' {
		if t, rest, ok = cutFraction(rest[1:]); !ok {
			return instant{}, notATime
		}
	}
	if !d.valid() || second < 0 {
		return instant{}, notADay
	}
	offset, local, ok := parseOffset(rest)
	switch {
	case !ok:
		return instant{}, notATime
	case local:
		at, bad := inZone(d, second, zone)
		t.seconds = at.seconds
		return t, bad
	}
	t.seconds = daysOf(d)*secondsPerDay + int64(second-offset)
	return t, timeIsOne
}

// cutDate takes YYYY-MM-DD. The day may not exist.
func cutDate(text []byte) (d date, rest []byte, ok bool) {
	if len(text) < 10 || text[4] != '-' || text[7] != '-' {
		return d, text, false
	}
	century, year, month, day := two(text), two(text[2:]), two(text[5:]), two(text[8:])
	d = date{year: century*100 + year, month: month, day: day}
	return d, text[10:], century|year|month|day >= 0
}

// two reads two digits, -1 when they are none.
func two(text []byte) int {
	high, low := text[0]-'0', text[1]-'0'
	if high > 9 || low > 9 {
		return -1
	}
	return int(high)*10 + int(low)
}

// cutClock takes hh:mm or hh:mm:ss. The second of the day is negative when the
// clock never shows it.
func cutClock(text []byte) (second int, rest []byte, ok bool) {
	if len(text) < 5 || text[2] != ':' {
		return 0, text, false
	}
	h, m, s := two(text), two(text[3:]), 0
	rest = text[5:]
	if len(rest) >= 3 && rest[0] == ':' {
		s, rest = two(rest[1:]), rest[3:]
	}
	if h|m|s < 0 {
		return 0, text, false
	}
	if h > 23 || m > 59 || s > 59 {
		return -1, rest, true
	}
	return h*3600 + m*60 + s, rest, true
}

// cutFraction takes the digits after a decimal point.
func cutFraction(text []byte) (t instant, rest []byte, ok bool) {
	end := digitsEnd(text, 0)
	for i := range max(end, 9) {
		digit := int64(0)
		if i < end {
			digit = int64(text[i] - '0')
		}
		if i < 9 {
			t.nanos = t.nanos*10 + digit
		} else if digit != 0 {
			t.finer = true
		}
	}
	return t, text[end:], end > 0
}

// parseOffset reads what stands after a time, in seconds east of Greenwich;
// local is set when nothing does.
func parseOffset(text []byte) (offset int, local, ok bool) {
	if len(text) == 0 {
		return 0, true, true
	}
	if len(text) == 1 {
		return 0, false, text[0] == 'Z' || text[0] == 'z'
	}
	if text[0] != '+' && text[0] != '-' {
		return 0, false, false
	}
	negative := text[0] == '-'
	text = text[1:]
	h, m := -1, 0
	switch {
	case len(text) == 2:
		h = two(text)
	case len(text) == 4:
		h, m = two(text), two(text[2:])
	case len(text) == 5 && text[2] == ':':
		h, m = two(text), two(text[3:])
	}
	if offset = h*3600 + m*60; negative {
		offset = -offset
	}
	return offset, false, h >= 0 && h < 24 && m >= 0 && m < 60
}

// inZone finds the moment when clocks in zone show the second of the day. When
// they show it twice it is the first, as in ClickHouse.
func inZone(d date, second int, zone *time.Location) (instant, badTime) {
	local := daysOf(d)*secondsPerDay + int64(second)
	switch zone {
	case time.UTC:
		return instant{seconds: local}, timeIsOne
	case nil:
		return instant{}, unknownZone
	}
	// Zones change their offset at most once in two days, so the offsets of the
	// days around are all there are.
	for _, around := range [...]int64{local - secondsPerDay, local + secondsPerDay} {
		_, offset := time.Unix(around, 0).In(zone).Zone()
		at := local - int64(offset)
		if _, back := time.Unix(at, 0).In(zone).Zone(); back == offset {
			return instant{seconds: at}, timeIsOne
		}
	}
	return instant{}, inTheGap
}
