package record

import (
	"bytes"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// mapCodec is for Map(K, V): the count and the pairs.
type mapCodec struct {
	plainCodec
	key, value Codec
}

func (c *mapCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	if value[0] != '{' {
		return dst, wrongKind(c.name, value)
	}
	start, count := len(dst), 0
	out := append(dst, 0)
	var seen keySet
	walk := elementsOf(value)
	for {
		key, member, ok := walk.nextMember()
		if !ok {
			return setCount(out, start, count), nil
		}
		count++
		at := len(out)
		var err error
		if out, err = c.key.AppendJSON(out, key); err != nil {
			return dst, within(err, "key %s", excerpt.Of(key))
		}
		if !seen.add(out, at) {
			return dst, &Error{Code: CodeDuplicateColumn, Message: "key " + excerpt.Of(key) + " stands more than once"}
		}
		if out, err = c.value.AppendJSON(out, member); err != nil {
			return dst, within(err, "value of key %s", excerpt.Of(key))
		}
		if len(out)-start > maxValueBytes {
			return dst, valueTooLarge(c.name)
		}
	}
}

// fewKeys is how many keys keySet compares one by one.
const fewKeys = 12

// keySet finds repeated keys by their encoded bytes, so that "1" and "01" of an
// integer key are the same. It needs no memory for small maps.
type keySet struct {
	few  [fewKeys]struct{ from, to int }
	n    int
	many map[string]struct{}
}

// add takes the key at the end of row, from at on, and reports whether it is
// new. Row may have moved since, but not its bytes.
func (s *keySet) add(row []byte, at int) bool {
	key := row[at:]
	if s.n < fewKeys {
		for _, k := range s.few[:s.n] {
			if bytes.Equal(row[k.from:k.to], key) {
				return false
			}
		}
		s.few[s.n].from, s.few[s.n].to = at, len(row)
		s.n++
		return true
	}
	if s.many == nil {
		s.many = make(map[string]struct{}, 4*fewKeys)
		for _, k := range s.few {
			s.many[string(row[k.from:k.to])] = struct{}{}
		}
	}
	if _, ok := s.many[string(key)]; ok {
		return false
	}
	s.many[string(key)] = struct{}{}
	return true
}

// AppendText takes ClickHouse's notation or JSON.
func (c *mapCodec) AppendText(dst, field []byte) ([]byte, error) {
	return appendComposite(c, dst, field)
}

func (c *mapCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	count, at, err := readCount(encoded)
	if err != nil {
		return dst, 0, err
	}
	dst = append(dst, '{')
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		var n int
		if dst, n, err = renderKey(c.key, dst, encoded[at:]); err != nil {
			return dst, 0, err
		}
		at += n
		if dst, n, err = c.value.RenderJSON(append(dst, ':'), encoded[at:], o); err != nil {
			return dst, 0, err
		}
		at += n
	}
	return append(dst, '}'), at, nil
}

// renderKey renders a map's key, which is a string whatever its type.
func renderKey(codec Codec, dst, encoded []byte) ([]byte, int, error) {
	start := len(dst)
	dst, n, err := codec.RenderJSON(append(dst, '"'), encoded, RenderOptions{denormals: true})
	if err != nil {
		return dst, 0, err
	}
	if dst[start+1] != '"' {
		return append(dst, '"'), n, nil
	}
	copy(dst[start:], dst[start+1:])
	return dst[:len(dst)-1], n, nil
}

func (c *mapCodec) Skip(encoded []byte) (int, error) {
	count, at, err := readCount(encoded)
	if err != nil {
		return 0, err
	}
	for range count {
		for _, codec := range [...]Codec{c.key, c.value} {
			if at, err = skipRepeated(codec, encoded, at, 1); err != nil {
				return 0, err
			}
		}
	}
	return at, nil
}

// Compare is never ok: maps are not ordered.
func (c *mapCodec) Compare(_, _ []byte) (int, bool) { return 0, false }
