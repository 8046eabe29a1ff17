package record

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// noType stands where a NULL of a Variant has the place of its type.
const noType = 0xFF

// variantCodec is for Variant(…): a byte with the place of one of its types, in
// the order of their names, and a value of it.
type variantCodec struct {
	plainCodec
	elems []Codec
	// tried is the order in which the types are asked for a value.
	tried []int
	// line judges texts that stand in a line, which ClickHouse reads.
	line *variant
	// text is the String that numbers and booleans are for, which no other type
	// is; -1 for none.
	text int
}

// variant fails when a type has no codec.
func (m maker) variant(t coltype.Type) (Codec, error) {
	m.inner = false
	c := &variantCodec{plainCodec: plainCodec{name: label(t)}, text: -1}
	c.line = &variant{name: c.name}
	types := slices.SortedFunc(slices.Values(t.Elems), func(a, b coltype.Type) int { return strings.Compare(a.Text, b.Text) })
	for i, typ := range types {
		elem, err := m.codec(typ)
		if err != nil || i == noType {
			return nil, noCodec(t)
		}
		c.elems, c.tried = append(c.elems, elem), append(c.tried, i)
		c.line.types = append(c.line.types, typ.Plain())
		if typ.Plain().Kind == coltype.String {
			c.text = i
		}
	}
	slices.SortStableFunc(c.tried, func(a, b int) int { return cmp.Compare(looseness(types[a]), looseness(types[b])) })
	if slices.ContainsFunc(types, func(t coltype.Type) bool { return slices.Contains(numeric, t.Kind) || slices.Contains(times, t.Kind) }) {
		c.text = -1
	}
	return c, nil
}

// looseness orders types by how much else they take beside what they are for: a
// float any integer, a String any text.
func looseness(t coltype.Type) int {
	for len(t.Elems) > 0 {
		t = t.Elems[len(t.Elems)-1]
	}
	switch t.Kind {
	case coltype.Decimal:
		return 1
	case coltype.Float, coltype.BFloat16:
		return 1000 - t.Bits
	case coltype.String:
		return 1001
	case coltype.FixedString:
		return 1002
	}
	return 0
}

// AppendJSON gives the value to the type that shows it as it was sent, a number as
// a number and a text as a text; else to one that takes it all the same. What was
// sent as a number or a boolean is no text where it could have been one.
func (c *variantCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	if isNull(value) {
		return append(dst, noType), nil
	}
	start := len(dst) + 1
	for _, i := range c.tried {
		out, err := c.elems[i].AppendJSON(append(dst, byte(i)), value)
		if err != nil {
			continue
		}
		if shown, _, err := c.elems[i].RenderJSON(out, out[start:], RenderOptions{}); err == nil && alike(value, shown[len(out):]) {
			return out, nil
		}
	}
	for _, i := range c.tried {
		if i != c.text && strings.IndexByte(`"[{`, value[0]) < 0 {
			continue
		}
		if out, err := c.elems[i].AppendJSON(append(dst, byte(i)), value); err == nil {
			return out, nil
		}
	}
	return dst, mismatchf("%s is no value of %s", excerpt.Of(value), c.name)
}

// alike reports whether two values have scalars of the same kinds, one by one, and
// texts that read as numbers are the same.
func alike(a, b []byte) bool {
	for i, j := 0, 0; ; {
		i, j = nextScalar(a, i), nextScalar(b, j)
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		x, y := a[i:valueEnd(a, i)], b[j:valueEnd(b, j)]
		if scalarKind(x[0]) != scalarKind(y[0]) || isDigits(x) && !bytes.Equal(x, y) {
			return false
		}
		i, j = i+len(x), j+len(y)
	}
}

// nextScalar passes over brackets and keys.
func nextScalar(b []byte, at int) int {
	for {
		for at < len(b) && strings.IndexByte("[]{},: \t\r\n", b[at]) >= 0 {
			at++
		}
		if at == len(b) || b[at] != '"' {
			return at
		}
		end := skipSpace(b, stringStop(b, at))
		if end == len(b) || b[end] != ':' {
			return at
		}
		at = end
	}
}

// isDigits tells a text that a type of times would take for seconds.
func isDigits(value []byte) bool {
	return value[0] == '"' && len(bytes.Trim(bytes.TrimLeft(value[1:len(value)-1], "+-"), "0123456789.")) == 0
}

// scalarKind tells what a value is by its first byte.
func scalarKind(c byte) byte {
	switch {
	case c == '-' || c-'0' <= 9:
		return '0'
	case c == 'f':
		return 't'
	}
	return c
}

// AppendText takes JSON as such and other text as a JSON string.
func (c *variantCodec) AppendText(dst, field []byte) ([]byte, error) {
	return appendFree(c, dst, field)
}

// elem is the codec of the type of a value that is not NULL.
func (c *variantCodec) elem(encoded []byte) (Codec, error) {
	if len(encoded) == 0 {
		return nil, errShort
	}
	if int(encoded[0]) >= len(c.elems) {
		return nil, malformed("%s has no type %d", c.name, encoded[0])
	}
	return c.elems[encoded[0]], nil
}

func (c *variantCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	if c.IsNull(encoded) {
		return append(dst, "null"...), 1, nil
	}
	elem, err := c.elem(encoded)
	if err != nil {
		return dst, 0, err
	}
	out, n, err := elem.RenderJSON(dst, encoded[1:], o)
	if err == nil && o.inLine && !c.readsBack(int(encoded[0]), out[len(dst):]) {
		return dst, 0, c.line.refuse(out[len(dst):])
	}
	return out, n + 1, err
}

// readsBack reports whether ClickHouse, which tries one type after the other, finds
// the type of a value in a line.
func (c *variantCodec) readsBack(of int, value []byte) bool {
	if strings.IndexByte(`"[{`, value[0]) < 0 {
		return true
	}
	for i, elem := range c.elems {
		if i == of || c.line.types[i].Kind == coltype.String {
			continue
		}
		if _, err := elem.AppendJSON(nil, value); err == nil {
			return false
		}
	}
	return c.line.types[of].Kind != coltype.String || c.line.isText(value)
}

func (c *variantCodec) Skip(encoded []byte) (int, error) {
	if c.IsNull(encoded) {
		return 1, nil
	}
	elem, err := c.elem(encoded)
	if err != nil {
		return 0, err
	}
	n, err := elem.Skip(encoded[1:])
	return n + 1, err
}

// Compare is never ok: ClickHouse orders values of different types in its own way.
func (c *variantCodec) Compare(_, _ []byte) (int, bool) { return 0, false }

func (c *variantCodec) IsNull(encoded []byte) bool { return len(encoded) > 0 && encoded[0] == noType }
