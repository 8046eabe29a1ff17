package record

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// maxPadding is how many zeros are written out for an exponent: more than the
// digits of the widest type.
const maxPadding = 80

// Floor finds the largest value of a plain type that is not above a number, a
// time or a length of time with more digits than the type has, as JSON. exact is
// set when it is the same in other words, such as 1 for 1.0. It is not ok for
// types without digits and for what is no such value; that the type's codec
// takes what is found is for the caller to see.
func Floor(t coltype.Type, value []byte) (floor []byte, exact, ok bool) {
	text, fault := scalarText(t.Text, value)
	if fault != nil {
		return nil, false, false
	}
	quoted := value[0] == '"'
	switch t.Kind {
	case coltype.Int, coltype.UInt:
		return floorNumber(text, 0)
	case coltype.Decimal:
		return floorNumber(text, t.Scale)
	case coltype.DateTime, coltype.DateTime64:
		if len(text) > 10 && text[4] == '-' && text[7] == '-' {
			return floorDateTime(text, t.Precision)
		}
		return floorEpoch(text, quoted, t.Precision)
	case coltype.Time, coltype.Time64:
		return floorClock(text, t.Precision)
	}
	return nil, false, false
}

// floorNumber keeps scale digits after the point.
func floorNumber(text []byte, scale int) (floor []byte, exact, ok bool) {
	n, ok := parseNumber(text)
	if !ok {
		return nil, false, false
	}
	digits := append(bytes.Clone(n.whole), n.fraction...)
	keep := max(len(n.whole)+n.exponent+scale, 0)
	var cut []byte
	switch {
	case keep <= len(digits):
		digits, cut = digits[:keep], digits[keep:]
	case keep-len(digits) > maxPadding:
		return nil, false, false
	default:
		digits = append(digits, bytes.Repeat([]byte("0"), keep-len(digits))...)
	}
	exact = len(trimZeros(cut)) == 0
	digits = trimZeros(digits)
	if n.negative && !exact {
		digits = increment(digits)
	}
	if n.negative && len(digits) > 0 {
		floor = append(floor, '-')
	}
	for len(digits) <= scale { // a digit before the point
		digits = append([]byte("0"), digits...)
	}
	floor = append(floor, digits[:len(digits)-scale]...)
	if scale > 0 {
		floor = append(append(floor, '.'), digits[len(digits)-scale:]...)
	}
	return floor, exact, true
}

// increment adds one to a number without leading zeros.
func increment(digits []byte) []byte {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '9' {
			digits[i]++
			return digits
		}
		digits[i] = '0'
	}
	return append([]byte("1"), digits...)
}

// floorDateTime cuts the fraction of a second that a text ends in, or that
// stands before its offset. It goes forward at all times.
func floorDateTime(text []byte, precision int) (floor []byte, exact, ok bool) {
	point := bytes.IndexByte(text, '.')
	if point < 0 {
		return nil, false, false
	}
	end := digitsEnd(text, point+1)
	keep := point + 1 + precision
	if keep >= end {
		return nil, false, false
	}
	exact = len(trimZeros(text[keep:end])) == 0
	if precision == 0 {
		keep = point
	}
	return AppendJSONString(nil, string(text[:keep])+string(text[end:])), exact, true
}

// floorEpoch reads a number since 1970.
func floorEpoch(text []byte, quoted bool, precision int) (floor []byte, exact, ok bool) {
	t, bad := parseEpoch(text, quoted)
	if bad != timeIsOne {
		return nil, false, false
	}
	at := time.Unix(t.seconds, t.nanos).UTC()
	below := at.Truncate(time.Duration(1e9 / tens[precision]))
	return AppendJSONString(nil, below.Format(time.RFC3339Nano)), !t.finer && below.Equal(at), true
}

// floorClock reads [-]hh:mm:ss[.f].
func floorClock(text []byte, precision int) (floor []byte, exact, ok bool) {
	const nanos = 9
	encoded, err := (&clockCodec{fixedCodec: newFixed("Time64(9)", 8), digits: nanos, unit: 1e9}).parse(nil, text, text)
	if err != nil {
		return nil, false, false
	}
	n, unit := int64(binary.LittleEndian.Uint64(encoded)), int64(tens[precision])
	units := floorDiv(n, 1e9/unit)
	if units <= -(maxClock+1)*unit {
		return nil, false, false
	}
	c := &clockCodec{fixedCodec: newFixed("Time64", 8), digits: precision, unit: unit}
	floor, _, err = c.RenderJSON(nil, appendLittle(nil, uint64(units), 8), RenderOptions{})
	return floor, units*(1e9/unit) == n, err == nil
}
