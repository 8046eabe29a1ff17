package record

import (
	"encoding/binary"
	"strconv"
)

// intCodec is for integers of up to 64 bits.
type intCodec struct {
	fixedCodec
	signed bool
	// limit is the largest positive value.
	limit uint64
}

func newInt(name string, bits int, signed bool) Codec {
	if bits > 64 {
		return &wideCodec{fixedCodec: newFixed(name, bits/8), signed: signed}
	}
	limit := ^uint64(0) >> (64 - bits)
	if signed {
		limit >>= 1
	}
	return &intCodec{fixedCodec: newFixed(name, bits/8), signed: signed, limit: limit}
}

func (c *intCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := scalarText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *intCodec) AppendText(dst, field []byte) ([]byte, error) { return c.parse(dst, field, field) }

// parse judges text; shown is what messages repeat.
func (c *intCodec) parse(dst, text, shown []byte) ([]byte, error) {
	n, negative, result := parseUint64(text)
	if result == fits && !c.holds(n, negative) {
		result = tooWide
	}
	if result != fits {
		return dst, c.refuse(result, shown)
	}
	if negative {
		n = -n
	}
	return appendLittle(dst, n, c.size), nil
}

// holds reports whether the value is in range. A minus sign on an unsigned
// type is refused even before a zero, as ClickHouse does.
func (c *intCodec) holds(n uint64, negative bool) bool {
	if !negative {
		return n <= c.limit
	}
	return c.signed && n <= c.limit+1
}

func appendLittle(dst []byte, n uint64, size int) []byte {
	switch size {
	case 1:
		return append(dst, byte(n))
	case 2:
		return binary.LittleEndian.AppendUint16(dst, uint16(n))
	case 4:
		return binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	return binary.LittleEndian.AppendUint64(dst, n)
}

// little reads an unsigned integer of up to eight bytes.
func little(encoded []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(encoded[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(encoded))
	case 4:
		return uint64(binary.LittleEndian.Uint32(encoded))
	}
	return binary.LittleEndian.Uint64(encoded)
}

// littleSigned reads a signed integer of up to eight bytes.
func littleSigned(encoded []byte, size int) int64 {
	shift := 64 - 8*size
	return int64(little(encoded, size)<<shift) >> shift
}

func (c *intCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	quote := o.Int64AsString && c.size == 8
	if quote {
		dst = append(dst, '"')
	}
	if c.signed {
		dst = strconv.AppendInt(dst, littleSigned(encoded, c.size), 10)
	} else {
		dst = strconv.AppendUint(dst, little(encoded, c.size), 10)
	}
	if quote {
		dst = append(dst, '"')
	}
	return dst, c.size, nil
}

func (c *intCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	if c.signed {
		return order(littleSigned(a, c.size), littleSigned(b, c.size)), true
	}
	return order(little(a, c.size), little(b, c.size)), true
}

// wideCodec is for integers of 128 and 256 bits.
type wideCodec struct {
	fixedCodec
	signed bool
}

func (c *wideCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := scalarText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *wideCodec) AppendText(dst, field []byte) ([]byte, error) { return c.parse(dst, field, field) }

// parse judges text; shown is what messages repeat.
func (c *wideCodec) parse(dst, text, shown []byte) ([]byte, error) {
	n, negative, result := parseWide(text)
	if result == fits && (!n.fits(negative, c.signed, c.size) || negative && !c.signed) {
		result = tooWide
	}
	if result != fits {
		return dst, c.refuse(result, shown)
	}
	if negative {
		n.negate()
	}
	return n.appendTo(dst, c.size), nil
}

func (c *wideCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	if o.Int64AsString {
		dst = append(dst, '"')
	}
	n, negative := wideFrom(encoded[:c.size], c.signed)
	if negative {
		dst = append(dst, '-')
	}
	dst = n.appendDecimal(dst)
	if o.Int64AsString {
		dst = append(dst, '"')
	}
	return dst, c.size, nil
}

func (c *wideCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return compareWide(a[:c.size], b[:c.size], c.signed), true
}

// compareWide orders two little-endian integers of the same size.
func compareWide(a, b []byte, signed bool) int {
	x, xNegative := wideFrom(a, signed)
	y, yNegative := wideFrom(b, signed)
	switch {
	case xNegative && yNegative:
		return y.compare(&x)
	case xNegative:
		return -1
	case yNegative:
		return 1
	}
	return x.compare(&y)
}
