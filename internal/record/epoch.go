package record

// Digits up to which an epoch number counts seconds, milliseconds, microseconds.
const (
	secondDigits = 11
	milliDigits  = 14
	microDigits  = 17
	nanoDigits   = 20
)

// parseEpoch reads a number since 1970. Its unit is told by its size, and a
// fraction means seconds.
func parseEpoch(text []byte, quoted bool) (instant, badTime) {
	n, ok := parseNumber(text)
	switch {
	case !ok || len(n.whole) == 0:
		return instant{}, notATime
	case n.exponent != 0 || text[len(text)-1] == '.' || hasExponent(text):
		return instant{}, epochExponent
	case quoted && len(text) == 8 && compactDate(text):
		return instant{}, looksLikeADay
	}
	t, bad := epochParts(n)
	if n.negative {
		if t.finer { // so that cutting it cuts toward the past
			t.nanos++
		}
		t.seconds = -t.seconds
		if t.nanos > 0 {
			t.seconds, t.nanos = t.seconds-1, 1e9-t.nanos
		}
	}
	return t, bad
}

func hasExponent(text []byte) bool {
	for _, c := range text {
		if c|0x20 == 'e' {
			return true
		}
	}
	return false
}

// epochParts splits a number's magnitude into seconds and nanoseconds.
func epochParts(n number) (instant, badTime) {
	digits := trimZeros(n.whole)
	if len(digits) > nanoDigits {
		return instant{}, epochTooLarge
	}
	count, _, result := parseUint64(digits)
	switch {
	case len(digits) == 0:
	case result != fits:
		return instant{}, epochTooLarge
	}
	if !n.plain {
		if len(digits) > secondDigits {
			return instant{}, epochOutOfUnit
		}
		t, _, _ := cutFraction(n.fraction)
		t.seconds = int64(count)
		return t, timeIsOne
	}
	unit := unitOf(len(digits))
	return instant{seconds: int64(count / unit), nanos: int64(count % unit * (1e9 / unit))}, timeIsOne
}

// unitOf is how many of the unit that so many digits mean make a second.
func unitOf(digits int) uint64 {
	switch {
	case digits <= secondDigits:
		return 1
	case digits <= milliDigits:
		return 1e3
	case digits <= microDigits:
		return 1e6
	}
	return 1e9
}

// compactDate reports whether eight digits read as YYYYMMDD.
func compactDate(text []byte) bool {
	century, year, month, day := two(text), two(text[2:]), two(text[4:]), two(text[6:])
	d := date{year: century*100 + year, month: month, day: day}
	return century|year|month|day >= 0 && d.year >= 1900 && d.year < 2300 && d.valid()
}
