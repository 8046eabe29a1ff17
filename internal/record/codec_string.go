package record

import (
	"bytes"
	"encoding/binary"
)

// stringCodec is for String. A number or a boolean is stored as its text.
type stringCodec struct{ plainCodec }

func (c *stringCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	switch value[0] {
	case '"':
		return appendQuoted(dst, value[1:len(value)-1]), nil
	case 'n', '{', '[':
		return dst, wrongKind(c.name, value)
	}
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...), nil
}

// AppendText takes any field as it is.
func (c *stringCodec) AppendText(dst, field []byte) ([]byte, error) {
	return append(appendCount(dst, len(field)), field...), nil
}

// appendQuoted appends the inside of a JSON string with its length in front.
func appendQuoted(dst, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(appendCount(dst, len(raw)), raw...)
	}
	start := len(dst)
	dst = unescape(append(dst, 0), raw)
	return setCount(dst, start, len(dst)-start-1)
}

// appendCount appends a length as ClickHouse's variable-length integer.
func appendCount(dst []byte, n int) []byte {
	if n < 0x80 {
		return append(dst, byte(n))
	}
	return binary.AppendUvarint(dst, uint64(n))
}

// setCount writes n where one byte was left for it at start, and moves what
// follows when n needs more.
func setCount(dst []byte, start, n int) []byte {
	if n < 0x80 {
		dst[start] = byte(n)
		return dst
	}
	var count [binary.MaxVarintLen64]byte
	width := binary.PutUvarint(count[:], uint64(n))
	dst = append(dst, count[:width-1]...)
	copy(dst[start+width:], dst[start+1:])
	copy(dst[start:], count[:width])
	return dst
}

// readCount reads a length and returns it with the bytes it took. A length
// larger than what follows is refused, for every counted thing takes a byte.
func readCount(encoded []byte) (n, width int, err error) {
	if len(encoded) > 0 && encoded[0] < 0x80 {
		n, width = int(encoded[0]), 1
	} else {
		long, w := binary.Uvarint(encoded)
		if w <= 0 || long > uint64(len(encoded)) {
			return 0, 0, errShort
		}
		n, width = int(long), w
	}
	if n > len(encoded)-width {
		return 0, 0, errShort
	}
	return n, width, nil
}

func (c *stringCodec) Skip(encoded []byte) (int, error) {
	n, width, err := readCount(encoded)
	return n + width, err
}

func (c *stringCodec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	n, width, err := readCount(encoded)
	if err != nil {
		return dst, 0, err
	}
	return AppendJSONString(dst, encoded[width:width+n]), width + n, nil
}

func (c *stringCodec) Compare(a, b []byte) (int, bool) {
	n, x, err := readCount(a)
	m, y, err2 := readCount(b)
	if err != nil || err2 != nil {
		return 0, false
	}
	return bytes.Compare(a[x:x+n], b[y:y+m]), true
}

// fixedStringCodec is for FixedString(n): n bytes, zeros at the end.
type fixedStringCodec struct{ fixedCodec }

func (c *fixedStringCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := stringText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.AppendText(dst, text)
}

// AppendText takes a field that is no longer than the type.
func (c *fixedStringCodec) AppendText(dst, text []byte) ([]byte, error) {
	if len(text) > c.size {
		return dst, outOfRangef("%d bytes are longer than %s", len(text), c.name)
	}
	return append(append(dst, text...), make([]byte, c.size-len(text))...), nil
}

func (c *fixedStringCodec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	if len(encoded) < c.size {
		return dst, 0, errShort
	}
	return AppendJSONString(dst, encoded[:c.size]), c.size, nil
}

func (c *fixedStringCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return bytes.Compare(a[:c.size], b[:c.size]), true
}
