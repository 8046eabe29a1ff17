package record

// nullableCodec is for Nullable(T): a byte that is 1 for NULL, else 0 and the
// value.
type nullableCodec struct{ elem Codec }

var jsonNull = []byte("null")

func isNull(value []byte) bool { return value[0] == 'n' }

func (c *nullableCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	if isNull(value) {
		return append(dst, 1), nil
	}
	out, err := c.elem.AppendJSON(append(dst, 0), value)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// AppendText never makes NULL: a field that means it is left out by its reader.
func (c *nullableCodec) AppendText(dst, field []byte) ([]byte, error) {
	out, err := c.elem.AppendText(append(dst, 0), field)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (c *nullableCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	switch {
	case len(encoded) == 0:
		return dst, 0, errShort
	case encoded[0] != 0:
		return append(dst, "null"...), 1, nil
	}
	out, n, err := c.elem.RenderJSON(dst, encoded[1:], o)
	return out, n + 1, err
}

func (c *nullableCodec) Skip(encoded []byte) (int, error) {
	switch {
	case len(encoded) == 0:
		return 0, errShort
	case encoded[0] != 0:
		return 1, nil
	}
	n, err := c.elem.Skip(encoded[1:])
	return n + 1, err
}

func (c *nullableCodec) Compare(a, b []byte) (int, bool) {
	if c.IsNull(a) || c.IsNull(b) || len(a) == 0 || len(b) == 0 {
		return 0, false
	}
	return c.elem.Compare(a[1:], b[1:])
}

func (c *nullableCodec) IsNull(encoded []byte) bool { return len(encoded) > 0 && encoded[0] != 0 }
