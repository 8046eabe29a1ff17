package record

import (
	"encoding/binary"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// decimalCodec is for Decimal(P, S): an integer of size bytes that counts
// units of 10^-S.
type decimalCodec struct {
	fixedCodec
	scale int
	// limit is 10^P, the first magnitude that is too wide.
	limit wide
}

func newDecimal(name string, bits, precision, scale int) Codec {
	c := &decimalCodec{fixedCodec: newFixed(name, bits/8), scale: scale, limit: wide{1}}
	c.limit.scale(precision)
	return c
}

func (c *decimalCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := scalarText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *decimalCodec) AppendText(dst, field []byte) ([]byte, error) {
	return c.parse(dst, field, field)
}

// parse judges text; shown is what messages repeat.
func (c *decimalCodec) parse(dst, text, shown []byte) ([]byte, error) {
	n, negative, result := parseScaled(text, c.scale)
	if result == fits && n.compare(&c.limit) >= 0 {
		result = tooWide
	}
	switch result {
	case fits:
	case notWhole:
		return dst, mismatchf("%s has more than the %d fractional digits of %s", excerpt.Of(shown), c.scale, c.name)
	default:
		return dst, c.refuse(result, shown)
	}
	if negative {
		n.negate()
	}
	return n.appendTo(dst, c.size), nil
}

func (c *decimalCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	if o.Int64AsString {
		dst = append(dst, '"')
	}
	dst = c.appendText(dst, encoded[:c.size])
	if o.Int64AsString {
		dst = append(dst, '"')
	}
	return dst, c.size, nil
}

// appendText appends the value without trailing zeros after the point.
func (c *decimalCodec) appendText(dst, encoded []byte) []byte {
	n, negative := c.magnitude(encoded)
	if negative {
		dst = append(dst, '-')
	}
	start := len(dst)
	dst = n.appendDecimal(dst)
	if c.scale == 0 {
		return dst
	}
	for len(dst)-start <= c.scale { // at least one digit before the point
		dst = append(dst, 0)
		copy(dst[start+1:], dst[start:])
		dst[start] = '0'
	}
	point := len(dst) - c.scale
	end := len(dst)
	for end > point && dst[end-1] == '0' {
		end--
	}
	if end == point {
		return dst[:point]
	}
	dst = append(dst[:end], 0)
	copy(dst[point+1:], dst[point:])
	dst[point] = '.'
	return dst
}

func (c *decimalCodec) magnitude(encoded []byte) (n wide, negative bool) {
	switch c.size {
	case 4:
		return magnitude64(int64(int32(binary.LittleEndian.Uint32(encoded))))
	case 8:
		return magnitude64(int64(binary.LittleEndian.Uint64(encoded)))
	}
	return wideFrom(encoded, true)
}

func magnitude64(n int64) (wide, bool) {
	if n < 0 {
		return wide{-uint64(n)}, true
	}
	return wide{uint64(n)}, false
}

func (c *decimalCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return compareWide(a[:c.size], b[:c.size], true), true
}
