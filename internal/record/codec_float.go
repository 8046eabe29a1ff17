package record

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// floatCodec is for Float32 and Float64, and for BFloat16, which is the upper
// half of a Float32.
type floatCodec struct {
	fixedCodec
	brain bool
}

func newFloat(name string, bits int) Codec {
	return &floatCodec{fixedCodec: newFixed(name, bits/8), brain: bits == 16}
}

func (c *floatCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := scalarText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	if value[0] == '"' {
		return c.parse(dst, text, value)
	}
	return c.parseDigits(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *floatCodec) AppendText(dst, field []byte) ([]byte, error) { return c.parse(dst, field, field) }

// parse judges text; shown is what messages repeat.
func (c *floatCodec) parse(dst, text, shown []byte) ([]byte, error) {
	if f, ok := denormal(text); ok {
		return c.append(dst, f), nil
	}
	if _, ok := parseNumber(text); !ok {
		return dst, mismatch(c.name, shown)
	}
	return c.parseDigits(dst, text, shown)
}

// parseDigits is parse for text that is known to be a number's.
func (c *floatCodec) parseDigits(dst, text, shown []byte) ([]byte, error) {
	f, err := strconv.ParseFloat(view(text), c.parseBits())
	if err != nil {
		return dst, outOfRange(c.name, shown)
	}
	return c.append(dst, f), nil
}

// parseBits is the width that a text is rounded to.
func (c *floatCodec) parseBits() int {
	if c.brain {
		return 32
	}
	return c.size * 8
}

// quietNaN is the NaN that ClickHouse reads from text.
const quietNaN = 0x7FF8 << 48

// denormal reads the names of the values that are no numbers.
func denormal(text []byte) (f float64, ok bool) {
	if len(text) == 0 || len(text) > len("-infinity") {
		return 0, false
	}
	name := view(text)
	sign := 1
	switch name[0] {
	case '-':
		sign, name = -1, name[1:]
	case '+':
		name = name[1:]
	}
	switch {
	case strings.EqualFold(name, "nan") && text[0] != '+': // what 0/0 makes is printed with a minus sign
		return math.Float64frombits(quietNaN), true
	case strings.EqualFold(name, "inf"), strings.EqualFold(name, "infinity"):
		return math.Inf(sign), true
	}
	return 0, false
}

func (c *floatCodec) append(dst []byte, f float64) []byte {
	switch {
	case c.brain:
		return binary.LittleEndian.AppendUint16(dst, uint16(math.Float32bits(float32(f))>>16))
	case c.size == 4:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(f)))
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}

func (c *floatCodec) value(encoded []byte) float64 {
	switch {
	case c.brain:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(encoded)) << 16))
	case c.size == 4:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(encoded)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(encoded))
}

func (c *floatCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	f := c.value(encoded)
	switch {
	case !math.IsNaN(f) && !math.IsInf(f, 0):
		return appendFloat(dst, f, c.parseBits()), c.size, nil
	case !o.denormals:
		return append(dst, "null"...), c.size, nil
	case math.IsNaN(f):
		return append(dst, `"nan"`...), c.size, nil
	case f > 0:
		return append(dst, `"inf"`...), c.size, nil
	}
	return append(dst, `"-inf"`...), c.size, nil
}

// appendFloat appends the shortest digits that read back as f, with an exponent
// from 1e21 up and below 1e-6.
func appendFloat(dst []byte, f float64, bits int) []byte {
	low, high := 1e-6, 1e21
	if bits == 32 { // the nearest values of the type, whose digits are these
		low, high = float64(float32(low)), float64(float32(high))
	}
	if a := math.Abs(f); f == 0 || a >= low && a < high {
		return appendShortest(dst, f, 'f', bits)
	}
	return trimExponent(appendShortest(dst, f, 'e', bits))
}

// appendShortest appends the shortest digits that read back as f. Of two that are
// equally near it takes the even one, as ClickHouse does and strconv does not.
func appendShortest(dst []byte, f float64, format byte, bits int) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	digits, decimals, last := countDigits(dst[start:])
	// With fewer digits the next one would tell two values apart.
	if decimals == 0 || last%2 == 0 || digits < bits/4-1 {
		return dst
	}
	even := strconv.AppendFloat(nil, f, format, decimals, 64)
	if back, err := strconv.ParseFloat(view(even), bits); err != nil || back != f {
		return dst
	}
	return append(dst[:start], even...)
}

// countDigits counts a number's significant digits, and those behind its point;
// last is the last of them.
func countDigits(text []byte) (digits, decimals int, last byte) {
	point := false
	for _, c := range text {
		switch {
		case c == '.':
			point = true
		case c == 'e':
			return digits, decimals, last
		case c >= '0' && c <= '9':
			if digits > 0 || c != '0' {
				digits++
			}
			if point {
				decimals++
			}
			last = c
		}
	}
	return digits, decimals, last
}

// trimExponent turns Go's e+21 and e-07 at the end of dst into e21 and e-7.
func trimExponent(dst []byte) []byte {
	sign := len(dst) - 1
	for dst[sign] != '+' && dst[sign] != '-' {
		sign--
	}
	digits := sign + 1
	if dst[digits] == '0' {
		digits++
	}
	if dst[sign] == '-' {
		sign++
	}
	return append(dst[:sign], dst[digits:]...)
}

func (c *floatCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	x, y := c.value(a), c.value(b)
	if math.IsNaN(x) || math.IsNaN(y) {
		return 0, false
	}
	return order(x, y), true
}
