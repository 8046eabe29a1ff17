package record

// date is a day of the proleptic Gregorian calendar.
type date struct{ year, month, day int }

const secondsPerDay = 24 * 60 * 60

// daysOf counts the days from 1970-01-01 to d.
func daysOf(d date) int64 {
	y, m := int64(d.year), int64(d.month)
	if m <= 2 { // the year starts in March, so that the leap day ends it
		y, m = y-1, m+12
	}
	era := floorDiv(y, 400)
	yearOfEra := y - era*400
	dayOfYear := (153*(m-3)+2)/5 + int64(d.day) - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// dateOf is the day that is days after 1970-01-01.
func dateOf(days int64) date {
	z := days + 719468
	era := floorDiv(z, 146097)
	dayOfEra := z - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	m := (5*dayOfYear + 2) / 153
	d := date{year: int(yearOfEra + era*400), month: int(m) + 3, day: int(dayOfYear-(153*m+2)/5) + 1}
	if d.month > 12 {
		d.month -= 12
		d.year++
	}
	return d
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (d date) valid() bool {
	return d.month >= 1 && d.month <= 12 && d.day >= 1 && d.day <= daysIn(d.year, d.month)
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// appendDate appends YYYY-MM-DD.
func appendDate(dst []byte, d date) []byte {
	dst = append(appendPadded(dst, uint64(d.year), 4), '-')
	dst = append(appendTwo(dst, d.month), '-')
	return appendTwo(dst, d.day)
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// appendInstant appends seconds since 1970 as RFC 3339 in UTC, with digits of
// fraction.
func appendInstant(dst []byte, seconds int64, fraction uint64, digits int) []byte {
	days := floorDiv(seconds, secondsPerDay)
	second := int(seconds - days*secondsPerDay)
	dst = append(appendDate(dst, dateOf(days)), 'T')
	dst = append(appendTwo(dst, second/3600), ':')
	dst = append(appendTwo(dst, second/60%60), ':')
	dst = appendTwo(dst, second%60)
	if digits > 0 {
		dst = appendPadded(append(dst, '.'), fraction, digits)
	}
	return append(dst, 'Z')
}
