package record

import (
	"errors"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// errShort is returned for an encoded value that ends too early.
var errShort = errors.New("encoded value is cut short")

// plainCodec is what codecs of types without NULL share.
type plainCodec struct{ name string }

// IsNull reports false: the type has no NULL.
func (plainCodec) IsNull([]byte) bool { return false }

// fixedCodec is what codecs of a fixed number of bytes share.
type fixedCodec struct {
	plainCodec
	size int
}

func newFixed(name string, size int) fixedCodec {
	return fixedCodec{plainCodec: plainCodec{name: name}, size: size}
}

// Skip returns the type's size.
func (c *fixedCodec) Skip(encoded []byte) (int, error) {
	if len(encoded) < c.size {
		return 0, errShort
	}
	return c.size, nil
}

// pair reports whether both values are whole, as Compare needs them.
func (c *fixedCodec) pair(a, b []byte) bool { return len(a) >= c.size && len(b) >= c.size }

// refuse turns a number that does not fit into the record's error.
func (c *plainCodec) refuse(result fit, value []byte) *Error {
	switch result {
	case tooWide:
		return outOfRange(c.name, value)
	case notWhole:
		return mismatchf("%s has a point or an exponent, and %s takes whole numbers in plain digits", excerpt.Of(value), c.name)
	}
	return mismatch(c.name, value)
}
