package record

// TextOf returns the bytes of the first value of encoded when the codec is one
// of String or FixedString, Nullable or not. It is not ok for NULL, for other
// types and for bytes that are no such value. The result refers to encoded.
func TextOf(c Codec, encoded []byte) (text []byte, ok bool) {
	if nullable, is := c.(*nullableCodec); is {
		if len(encoded) == 0 || encoded[0] != 0 {
			return nil, false
		}
		c, encoded = nullable.elem, encoded[1:]
	}
	switch c := c.(type) {
	case *stringCodec:
		n, width, err := readCount(encoded)
		if err != nil {
			return nil, false
		}
		return encoded[width : width+n], true
	case *fixedStringCodec:
		if len(encoded) < c.size {
			return nil, false
		}
		return encoded[:c.size], true
	}
	return nil, false
}
