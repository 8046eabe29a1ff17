package record

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// enumCodec is for Enum8 and Enum16: the number of a name.
type enumCodec struct {
	fixedCodec
	numbers map[string]int16
	// rendered are the names as JSON strings; readable those that are not UTF-8, with
	// U+FFFD for what is not.
	rendered, readable map[int16][]byte
	// known lists the first names for messages.
	known string
}

// listedNames bounds the names that a message repeats.
const listedNames = 8

func newEnum(t coltype.Type) Codec {
	c := &enumCodec{
		fixedCodec: newFixed(t.Name, t.Bits/8),
		numbers:    make(map[string]int16, len(t.Values)),
		rendered:   make(map[int16][]byte, len(t.Values)),
	}
	var names []string
	for i, v := range t.Values {
		c.numbers[v.Name] = v.Value
		c.rendered[v.Value] = AppendJSONString(nil, v.Name)
		if !utf8.ValidString(v.Name) {
			if c.readable == nil {
				c.readable = map[int16][]byte{}
			}
			c.readable[v.Value] = AppendJSONString(nil, strings.ToValidUTF8(v.Name, "\uFFFD"))
		}
		if i < listedNames {
			names = append(names, quoted(v.Name))
		}
	}
	if c.known = strings.Join(names, ", "); len(t.Values) > listedNames {
		c.known += ", …"
	}
	return c
}

// AppendJSON takes a name, or a number whether quoted or not; a name that looks
// like a number is a name first.
func (c *enumCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := scalarText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value, value[0] == '"')
}

// AppendText reads a field as AppendJSON reads a string.
func (c *enumCodec) AppendText(dst, field []byte) ([]byte, error) {
	return c.parse(dst, field, field, true)
}

// parse judges text, which may be a name when quoted; shown is what messages
// repeat.
func (c *enumCodec) parse(dst, text, shown []byte, quoted bool) ([]byte, error) {
	if quoted {
		if n, ok := c.numbers[string(text)]; ok {
			return appendLittle(dst, uint64(n), c.size), nil
		}
	}
	n, negative, result := parseUint64(text)
	if result == fits && n <= 1<<15 {
		number := int64(n)
		if negative {
			number = -number
		}
		if _, ok := c.rendered[int16(number)]; ok && int64(int16(number)) == number {
			return appendLittle(dst, uint64(number), c.size), nil
		}
	}
	return dst, mismatchf("%s is not one of %s's values: %s", excerpt.Of(shown), c.name, c.known)
}

func (c *enumCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	n := int16(littleSigned(encoded, c.size))
	name, ok := c.rendered[n]
	if !ok {
		return dst, 0, fmt.Errorf("%s has no value %d", c.name, n)
	}
	if readable, ok := c.readable[n]; ok {
		switch {
		case o.inLine:
			return strconv.AppendInt(dst, int64(n), 10), c.size, nil
		case !o.denormals:
			name = readable
		}
	}
	return append(dst, name...), c.size, nil
}

func (c *enumCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return order(littleSigned(a, c.size), littleSigned(b, c.size)), true
}
