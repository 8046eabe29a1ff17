package record

import (
	"encoding/binary"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// maxClock is the last second of Time and Time64, 999:59:59; the first is its
// negative.
const maxClock = 1000*3600 - 1

// clockCodec is for Time (four bytes, seconds) and Time64 (eight bytes, in
// units of its precision): a length of time of either sign, signed.
type clockCodec struct {
	fixedCodec
	digits int
	// unit is how many units make a second.
	unit int64
	// cut drops digits that the type does not hold, which are refused without it.
	cut bool
}

func newClock(name string, size, digits int, cut bool) Codec {
	return &clockCodec{fixedCodec: newFixed(name, size), digits: digits, unit: int64(tens[digits]), cut: cut}
}

func (c *clockCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := stringText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *clockCodec) AppendText(dst, field []byte) ([]byte, error) { return c.parse(dst, field, field) }

// parse reads [-]h:mm:ss[.f] with up to three digits of hours; shown is what
// messages repeat.
func (c *clockCodec) parse(dst, text, shown []byte) ([]byte, error) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	hours := digitsEnd(text, 0)
	if hours < 1 || hours > 3 || len(text) < hours+6 || text[hours] != ':' || text[hours+3] != ':' {
		return dst, mismatchf("%s is not a time: %s takes hh:mm:ss", excerpt.Of(shown), c.name)
	}
	h, _, _ := parseUint64(text[:hours])
	m, s, rest := two(text[hours+1:]), two(text[hours+4:]), text[hours+6:]
	var fraction instant
	if len(rest) > 1 && rest[0] == '.' {
		fraction, rest, _ = cutFraction(rest[1:])
	}
	if m < 0 || m > 59 || s < 0 || s > 59 || len(rest) > 0 {
		return dst, mismatchf("%s is not a time: %s takes hh:mm:ss", excerpt.Of(shown), c.name)
	}
	step := int64(1e9) / c.unit
	more := fraction.finer || fraction.nanos%step != 0
	if more && !c.cut {
		return dst, finer(c.name, shown, c.digits)
	}
	units := (int64(h)*3600+int64(m)*60+int64(s))*c.unit + fraction.nanos/step
	if negative {
		if units = -units; more {
			units-- // toward the past
		}
	}
	if units < -maxClock*c.unit-(c.unit-1) {
		return dst, outOfRange(c.name, shown)
	}
	return appendLittle(dst, uint64(units), c.size), nil
}

func (c *clockCodec) value(encoded []byte) int64 {
	if c.size == 4 {
		return littleSigned(encoded, c.size)
	}
	return int64(binary.LittleEndian.Uint64(encoded))
}

func (c *clockCodec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	dst = append(dst, '"')
	n := c.value(encoded)
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	// Bits that no text makes are shown as the bound they are beyond.
	if uint64(n)/uint64(c.unit) > maxClock {
		n = (maxClock+1)*c.unit - 1
	}
	seconds := n / c.unit
	width := 2
	if seconds >= 100*3600 {
		width = 3
	}
	dst = append(appendPadded(dst, uint64(seconds/3600), width), ':')
	dst = append(appendTwo(dst, int(seconds/60%60)), ':')
	dst = appendTwo(dst, int(seconds%60))
	if c.digits > 0 {
		dst = appendPadded(append(dst, '.'), uint64(n%c.unit), c.digits)
	}
	return append(dst, '"'), c.size, nil
}

func (c *clockCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return order(c.value(a), c.value(b)), true
}
