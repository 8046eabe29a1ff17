package record

import (
	"bytes"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// rawCodec stands in for the codec of a type that has none. The value is JSON
// with its length in front; what it means is for ClickHouse to say. It never
// stands in a row that leaves this package.
type rawCodec struct {
	plainCodec
	// refusesNull is for types that have no NULL, as far as is known.
	refusesNull bool
	// judge is of values that arrive: of those that are stored, and of types whose
	// values ClickHouse alone knows, it is nil.
	judge judge
}

// raw makes what stands in for the codec of a type.
func (m maker) raw(t coltype.Type, text string) *rawCodec {
	c := &rawCodec{plainCodec: plainCodec{name: excerpt.Of(text)}, refusesNull: !t.AcceptsNull()}
	if !m.door {
		return c
	}
	inner := m.inner
	m.inner = true
	switch t.Kind {
	case coltype.JSON:
		c.judge = &document{name: c.name, typed: m.typedPaths(t)}
	case coltype.Dynamic:
		c.judge = &dynamic{name: c.name, inner: inner}
	case coltype.Variant:
		c.judge = m.variantOf(t)
	case coltype.Nullable, coltype.Array, coltype.Map, coltype.Tuple, coltype.Nested:
		if codec, err := m.codec(t); err == nil {
			c.judge = &composite{codec: codec}
		}
	}
	return c
}

// AppendJSON keeps the value on one line.
func (c *rawCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	if c.refusesNull && isNull(value) {
		return dst, nullNotAllowed(c.name)
	}
	start := len(dst)
	out := append(dst, 0)
	if c.judge == nil {
		out = append(out, value...)
	} else {
		var err error
		if out, err = c.judge.append(out, value); err != nil {
			return dst, err
		}
	}
	// A string holds no line feed as it is, so each is white space.
	for at := start + 1; ; {
		n := bytes.IndexAny(out[at:], "\r\n")
		if n < 0 {
			return setCount(out, start, len(out)-start-1), nil
		}
		at += n
		out[at] = ' '
	}
}

// AppendText takes JSON as such and other text as a JSON string. What is NULL is
// \N, which is left out: the text null is one.
func (c *rawCodec) AppendText(dst, field []byte) ([]byte, error) {
	return appendFree(c, dst, field)
}

func appendFree(c Codec, dst, field []byte) ([]byte, error) {
	if isJSON(field) && !isNull(field) {
		return c.AppendJSON(dst, field)
	}
	return c.AppendJSON(dst, AppendJSONString(nil, field))
}

// isJSON reports whether text is one JSON value and nothing else.
func isJSON(text []byte) bool {
	end, fault := scanValue(text, 0, 0)
	return fault == fine && end == len(text)
}

func (c *rawCodec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	n, width, err := readCount(encoded)
	if err != nil {
		return dst, 0, err
	}
	return append(dst, encoded[width:width+n]...), width + n, nil
}

func (c *rawCodec) Skip(encoded []byte) (int, error) {
	n, width, err := readCount(encoded)
	return n + width, err
}

// Compare is never ok: only ClickHouse knows what the values are.
func (c *rawCodec) Compare(_, _ []byte) (int, bool) { return 0, false }

func (c *rawCodec) IsNull(encoded []byte) bool {
	n, width, err := readCount(encoded)
	return err == nil && string(encoded[width:width+n]) == "null"
}
