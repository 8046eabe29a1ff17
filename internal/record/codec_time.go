package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// The first and last second of DateTime64, and its days in Date32: the years
// 1900 to 2299.
const (
	firstSecond = -2208988800
	lastSecond  = 10413791999
)

// dateCodec is for Date (two bytes, unsigned) and Date32 (four bytes, signed),
// both in days since 1970.
type dateCodec struct {
	fixedCodec
	low, high int64
}

func newDate(name string) Codec {
	if name == "Date" {
		return &dateCodec{fixedCodec: newFixed(name, 2), high: math.MaxUint16}
	}
	return &dateCodec{
		fixedCodec: newFixed(name, 4),
		low:        firstSecond / secondsPerDay, high: lastSecond / secondsPerDay,
	}
}

func (c *dateCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := stringText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *dateCodec) AppendText(dst, field []byte) ([]byte, error) { return c.parse(dst, field, field) }

// parse judges text; shown is what messages repeat.
func (c *dateCodec) parse(dst, text, shown []byte) ([]byte, error) {
	d, rest, ok := cutDate(text)
	switch {
	case !ok || len(rest) > 0:
		return dst, mismatchf("%s is not a date: %s takes YYYY-MM-DD", excerpt.Of(shown), c.name)
	case !d.valid():
		return dst, mismatchf("%s names a day that does not exist", excerpt.Of(shown))
	}
	days := daysOf(d)
	if days < c.low || days > c.high {
		return dst, outOfRange(c.name, shown)
	}
	return appendLittle(dst, uint64(days), c.size), nil
}

func (c *dateCodec) days(encoded []byte) int64 {
	if c.size == 2 {
		return int64(binary.LittleEndian.Uint16(encoded))
	}
	return littleSigned(encoded, c.size)
}

func (c *dateCodec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	dst = appendDate(append(dst, '"'), dateOf(c.days(encoded)))
	return append(dst, '"'), c.size, nil
}

func (c *dateCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return order(c.days(a), c.days(b)), true
}

// dateTimeCodec is for DateTime (four bytes, unsigned seconds) and DateTime64
// (eight bytes, signed, in units of its precision), both since 1970 in UTC.
type dateTimeCodec struct {
	fixedCodec
	digits int
	// unit is how many units make a second.
	unit int64
	// zone is of times without an offset; nil when it is not known here.
	zone      *time.Location
	low, high int64
	// cut drops digits that the type does not hold, which are refused without it.
	cut bool
}

func newDateTime(name string, zone *time.Location, cut bool) Codec {
	return &dateTimeCodec{fixedCodec: newFixed(name, 4), unit: 1, zone: utcOf(zone), high: math.MaxUint32, cut: cut}
}

func newDateTime64(name string, precision int, zone *time.Location, cut bool) Codec {
	return &dateTimeCodec{
		cut:        cut,
		fixedCodec: newFixed(name, 8), digits: precision, unit: int64(tens[precision]),
		zone: utcOf(zone), low: firstSecond, high: lastSecond,
	}
}

// utcOf returns time.UTC itself for every name of it, so that it is told by
// its pointer.
func utcOf(zone *time.Location) *time.Location {
	if zone == nil {
		return nil
	}
	switch zone.String() {
	case "UTC", "Etc/UTC", "Etc/UCT", "UCT", "Etc/Universal", "Universal", "Etc/Zulu", "Zulu", "GMT", "Etc/GMT":
		return time.UTC
	}
	return zone
}

func (c *dateTimeCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := scalarText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value, value[0] == '"')
}

// AppendText reads a field as AppendJSON reads a string.
func (c *dateTimeCodec) AppendText(dst, field []byte) ([]byte, error) {
	return c.parse(dst, field, field, true)
}

// parse judges text, which is a string's when quoted; shown is what messages
// repeat.
func (c *dateTimeCodec) parse(dst, text, shown []byte, quoted bool) ([]byte, error) {
	at, bad := parseInstant(text, quoted, c.zone)
	if bad == notATime && quoted {
		var buffer [longestSpelling + len("--T::Z")]byte
		if spelled, ok := respell(buffer[:0], text); ok {
			at, bad = parseInstant(spelled, true, c.zone)
		}
	}
	switch {
	case bad == epochTooLarge:
		return dst, outOfRange(c.name, shown)
	case bad == notATime:
		fault := mismatch(c.name, shown)
		fault.Hint = `write it like "2026-11-29T10:00:00Z", or as a number since 1970`
		return dst, fault
	case bad != timeIsOne:
		return dst, mismatchf("%s %s", excerpt.Of(shown), string(bad))
	case at.seconds < c.low || at.seconds > c.high:
		return dst, outOfRange(c.name, shown)
	}
	step := int64(1e9) / c.unit
	if (at.finer || at.nanos%step != 0) && !c.cut {
		return dst, finer(c.name, shown, c.digits)
	}
	units, ok := c.units(at.seconds, at.nanos/step)
	if !ok {
		return dst, outOfRange(c.name, shown)
	}
	return appendLittle(dst, uint64(units), c.size), nil
}

// finer refuses digits of a second that a type does not hold.
func finer(typeName string, shown []byte, digits int) *Error {
	fault := mismatchf("%s is finer than %s, which holds %d digits of a second", excerpt.Of(shown), typeName, digits)
	if fault.Hint = "cut it to whole seconds"; digits > 0 {
		fault.Hint = fmt.Sprintf("cut it to %d digits", digits)
	}
	fault.Hint += `, set ingest.tables.` + thisTable + `.times to "truncate" to have it cut, or make the column finer`
	return fault
}

// units counts units since 1970 and reports whether that fits 64 bits.
func (c *dateTimeCodec) units(seconds, rest int64) (int64, bool) {
	if c.unit == 1 {
		return seconds, true
	}
	if seconds < 0 { // towards zero first, for the smallest value has no positive twin
		seconds, rest = seconds+1, rest-c.unit
	}
	if seconds > math.MaxInt64/c.unit || seconds < math.MinInt64/c.unit {
		return 0, false
	}
	n := seconds * c.unit
	if rest > 0 && n > math.MaxInt64-rest || rest < 0 && n < math.MinInt64-rest {
		return 0, false
	}
	return n + rest, true
}

func (c *dateTimeCodec) value(encoded []byte) int64 {
	if c.size == 4 {
		return int64(binary.LittleEndian.Uint32(encoded))
	}
	return int64(binary.LittleEndian.Uint64(encoded))
}

func (c *dateTimeCodec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	n := c.value(encoded)
	seconds := floorDiv(n, c.unit)
	dst = appendInstant(append(dst, '"'), seconds, uint64(n-seconds*c.unit), c.digits)
	return append(dst, '"'), c.size, nil
}

func (c *dateTimeCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return order(c.value(a), c.value(b)), true
}
