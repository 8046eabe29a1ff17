package record

import (
	"bytes"
	"strings"
)

// longestSpelling bounds the texts that respell looks at.
const longestSpelling = 48

// respell writes a time as RFC 3339 has it that is written otherwise and means
// one moment alone: with slashes, without separators, as in RFC 1123, or with
// its zone behind a space. It is false for every other text. docs/types.md lists
// what is taken.
func respell(dst, text []byte) (out []byte, ok bool) {
	if len(text) < len("2026/1/1") || len(text) > longestSpelling {
		return nil, false
	}
	var rest []byte
	switch {
	case len(text) >= 10 && text[4] == '/' && text[7] == '/':
		dst = append(append(append(append(append(dst, text[:4]...), '-'), text[5:7]...), '-'), text[8:10]...)
		rest = text[10:]
		if len(rest) == 0 {
			return dst, true
		}
	case len(text) >= 10 && text[4] == '-' && text[7] == '-':
		dst, rest = append(dst, text[:10]...), text[10:]
	case len(text) >= 15 && text[8] == 'T' && digitsEnd(text, 0) == 8 && digitsEnd(text, 9) == 15:
		dst = append(append(append(append(append(dst, text[:4]...), '-'), text[4:6]...), '-'), text[6:8]...)
		dst = append(append(append(append(append(append(dst, 'T'), text[9:11]...), ':'), text[11:13]...), ':'), text[13:15]...)
		return respellZone(dst, text[15:])
	default:
		if dst, rest, ok = respellNamed(dst, text); !ok {
			return nil, false
		}
	}
	if rest[0] != ' ' && rest[0] != 'T' {
		return nil, false
	}
	clock := rest[1:]
	end := 0
	for end < len(clock) && (clock[end] == ':' || clock[end]-'0' <= 9) {
		end++
	}
	return respellZone(append(append(dst, 'T'), clock[:end]...), clock[end:])
}

// respellNamed reads [Mon, ]2 Jan 2006, as dates of RFC 1123 begin. A weekday that
// is not the date's is a fault.
func respellNamed(dst, text []byte) (out, rest []byte, ok bool) {
	weekday := ""
	if len(text) > 5 && text[3] == ',' && text[4] == ' ' {
		weekday, text = string(text[:3]), text[5:]
	}
	digits := digitsEnd(text, 0)
	if digits < 1 || digits > 2 || len(text) < digits+len(" Jan 2006 ") || text[digits] != ' ' || text[digits+4] != ' ' || text[digits+9] != ' ' && text[digits+9] != 'T' {
		return nil, nil, false
	}
	d := date{day: int(text[digits-1] - '0')}
	if digits == 2 {
		d.day += 10 * int(text[0]-'0')
	}
	d.month = nameIn("JanFebMarAprMayJunJulAugSepOctNovDec", string(text[digits+1:digits+4])) + 1
	century, year := two(text[digits+5:]), two(text[digits+7:])
	d.year = century*100 + year
	if century|year < 0 || !d.valid() {
		return nil, nil, false
	}
	if weekday != "" && nameIn("ThuFriSatSunMonTueWed", weekday) != int(((daysOf(d)%7)+7)%7) {
		return nil, nil, false
	}
	return appendDate(dst, d), text[digits+9:], true
}

// nameIn finds a name of three letters among those of all, -1 when it is none.
func nameIn(all, name string) int {
	for i := 0; i < len(all); i += 3 {
		if strings.EqualFold(all[i:i+3], name) {
			return i / 3
		}
	}
	return -1
}

// respellZone appends a fraction, and the offset behind it, perhaps after a
// space: Z, UTC, GMT, or hours and minutes.
func respellZone(dst, text []byte) (out []byte, ok bool) {
	if len(text) > 0 && text[0] == '.' {
		end := digitsEnd(text, 1)
		dst, text = append(dst, text[:end]...), text[end:]
	}
	text = bytes.TrimPrefix(text, []byte(" "))
	switch string(text) {
	case "UTC", "GMT":
		return append(dst, 'Z'), true
	}
	return append(dst, text...), true
}
