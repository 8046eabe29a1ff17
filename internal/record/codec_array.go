package record

import (
	"errors"
	"fmt"
)

// maxValueBytes bounds the encoding of one array or map, which may be much
// longer than its JSON (of short texts for a long FixedString, for example).
const maxValueBytes = 16 << 20

func valueTooLarge(typeName string) *Error {
	return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("a value of type %s is over 16 MiB when encoded", typeName)}
}

// within says where in a composite value an error stands.
func within(err error, format string, args ...any) error {
	if fault, ok := errors.AsType[*Error](err); ok {
		fault.Message = fmt.Sprintf(format, args...) + ": " + fault.Message
	}
	return err
}

// arrayCodec is for Array(T): the count and the elements.
type arrayCodec struct {
	plainCodec
	elem Codec
}

func (c *arrayCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	if value[0] != '[' {
		return dst, wrongKind(c.name, value)
	}
	start, count := len(dst), 0
	out := append(dst, 0)
	walk := elementsOf(value)
	for {
		elem, ok := walk.next()
		if !ok {
			return setCount(out, start, count), nil
		}
		count++
		var err error
		if out, err = c.elem.AppendJSON(out, elem); err != nil {
			return dst, within(err, "element %d", count)
		}
		if len(out)-start > maxValueBytes {
			return dst, valueTooLarge(c.name)
		}
	}
}

// AppendText takes ClickHouse's notation or JSON.
func (c *arrayCodec) AppendText(dst, field []byte) ([]byte, error) {
	return appendComposite(c, dst, field)
}

func (c *arrayCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	count, at, err := readCount(encoded)
	if err != nil {
		return dst, 0, err
	}
	dst = append(dst, '[')
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		var n int
		if dst, n, err = c.elem.RenderJSON(dst, encoded[at:], o); err != nil {
			return dst, 0, err
		}
		at += n
	}
	return append(dst, ']'), at, nil
}

func (c *arrayCodec) Skip(encoded []byte) (int, error) {
	count, at, err := readCount(encoded)
	if err != nil {
		return 0, err
	}
	return skipRepeated(c.elem, encoded, at, count)
}

// skipRepeated returns the offset after count values of one type from at on.
func skipRepeated(codec Codec, encoded []byte, at, count int) (int, error) {
	for range count {
		n, err := codec.Skip(encoded[at:])
		if err != nil {
			return 0, err
		}
		at += n
	}
	return at, nil
}

// Compare orders by the first elements that differ, then by length.
func (c *arrayCodec) Compare(a, b []byte) (int, bool) {
	n, x, err := readCount(a)
	m, y, err2 := readCount(b)
	if err != nil || err2 != nil {
		return 0, false
	}
	for range min(n, m) {
		cmp, ok := c.elem.Compare(a[x:], b[y:])
		if !ok || cmp != 0 {
			return cmp, ok
		}
		i, err := c.elem.Skip(a[x:])
		j, err2 := c.elem.Skip(b[y:])
		if err != nil || err2 != nil {
			return 0, false
		}
		x, y = x+i, y+j
	}
	return order(n, m), true
}
