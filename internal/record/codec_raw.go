package record

import (
	"bytes"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// rawCodec stands in for the codec of a type that has none. The value is JSON
// whose syntax alone was checked, with its length in front; what it means is
// for ClickHouse to say. It never stands in a row that leaves this package.
type rawCodec struct {
	plainCodec
	// refusesNull is for types that are known to have no NULL.
	refusesNull bool
	// object is for a JSON that arrives: ClickHouse takes nothing else.
	object bool
}

func newRaw(t coltype.Type, text string, door bool) Codec {
	known := t.Kind != coltype.Other
	return &rawCodec{plainCodec: plainCodec{name: excerpt.Of(text)}, refusesNull: known && !t.AcceptsNull(), object: door && t.Plain().Kind == coltype.JSON}
}

// AppendJSON keeps the value as it is, but on one line.
func (c *rawCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	if c.refusesNull && isNull(value) {
		return dst, nullNotAllowed(c.name)
	}
	if c.object && value[0] != '{' && !isNull(value) {
		return dst, mismatchf("%s is not an object, and %s takes nothing else", excerpt.Of(value), c.name)
	}
	dst = appendCount(dst, len(value))
	start := len(dst)
	dst = append(dst, value...)
	// A string holds no line feed as it is, so each is white space.
	for at := start; ; {
		n := bytes.IndexAny(dst[at:], "\r\n")
		if n < 0 {
			return dst, nil
		}
		at += n
		dst[at] = ' '
	}
}

// AppendText takes JSON as such and other text as a JSON string. What is NULL is
// \N, which is left out: the text null is one.
func (c *rawCodec) AppendText(dst, field []byte) ([]byte, error) {
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
