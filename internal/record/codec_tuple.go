package record

import (
	"fmt"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// tupleCodec is for Tuple(…): the members one after the other.
type tupleCodec struct {
	plainCodec
	elems []Codec
	// names is nil for a tuple without names.
	names []string
	// keys are the names as JSON keys, with quotes and colon.
	keys [][]byte
}

func newTuple(name string, elems []Codec, names []string) Codec {
	c := &tupleCodec{plainCodec: plainCodec{name: name}, elems: elems, names: names}
	for _, n := range names {
		c.keys = append(c.keys, append(AppendJSONString(nil, n), ':'))
	}
	return c
}

func (c *tupleCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	switch {
	case value[0] == '[':
		return c.appendArray(dst, value)
	case value[0] == '{' && c.names != nil:
		return c.appendObject(dst, value)
	}
	return dst, wrongKind(c.name, value)
}

// appendArray takes the members by their order.
func (c *tupleCodec) appendArray(dst, value []byte) ([]byte, error) {
	out, walk := dst, elementsOf(value)
	for i := 0; ; i++ {
		elem, ok := walk.next()
		if ok != (i < len(c.elems)) {
			return dst, mismatchf("the array has not the %d elements of %s", len(c.elems), c.name)
		}
		if !ok {
			return out, nil
		}
		var err error
		if out, err = c.elems[i].AppendJSON(out, elem); err != nil {
			return dst, within(err, "element %d", i+1)
		}
	}
}

// usualMembers is how many members a tuple may have before reading one
// allocates.
const usualMembers = 16

// appendObject takes the members by their names, in any order. A member that
// is left out must be able to be NULL.
func (c *tupleCodec) appendObject(dst, value []byte) ([]byte, error) {
	var few [usualMembers][]byte
	members := few[:]
	if len(c.elems) > usualMembers {
		members = make([][]byte, len(c.elems))
	}
	if fault := c.collect(members, value); fault != nil {
		return dst, fault
	}
	out := dst
	for i, codec := range c.elems {
		member := members[i]
		if member == nil {
			if !acceptsNull(codec) {
				return dst, &Error{Code: CodeMissingColumn, Message: "member " + quoted(c.names[i]) + " is missing"}
			}
			member = []byte("null")
		}
		var err error
		if out, err = codec.AppendJSON(out, member); err != nil {
			return dst, within(err, "member %s", quoted(c.names[i]))
		}
	}
	return out, nil
}

// collect finds the value of each member.
func (c *tupleCodec) collect(members [][]byte, value []byte) *Error {
	walk := elementsOf(value)
	for next := 0; ; next++ {
		key, member, ok := walk.nextMember()
		if !ok {
			return nil
		}
		i := c.indexOf(unquote(key), next)
		if i < 0 {
			return &Error{Code: CodeUnknownColumn, Message: fmt.Sprintf("%s has no member %s", c.name, excerpt.Of(key))}
		}
		if members[i] != nil {
			return &Error{Code: CodeDuplicateColumn, Message: "member " + excerpt.Of(key) + " stands more than once"}
		}
		members[i] = member
	}
}

// indexOf finds a member by name, first where it would be in order.
func (c *tupleCodec) indexOf(name []byte, guess int) int {
	if guess < len(c.names) && c.names[guess] == string(name) {
		return guess
	}
	for i, n := range c.names {
		if n == string(name) {
			return i
		}
	}
	return -1
}

// acceptsNull reports whether null is a value of the codec's type.
func acceptsNull(codec Codec) bool {
	switch codec.(type) {
	case *nullableCodec, *variantCodec:
		return true
	}
	return false
}

// AppendText takes ClickHouse's notation or JSON.
func (c *tupleCodec) AppendText(dst, field []byte) ([]byte, error) {
	return appendComposite(c, dst, field)
}

func (c *tupleCodec) RenderJSON(dst, encoded []byte, o RenderOptions) ([]byte, int, error) {
	opening, closing := byte('['), byte(']')
	if c.names != nil {
		opening, closing = '{', '}'
	}
	at := 0
	for i, codec := range c.elems {
		if dst = append(dst, ','); i == 0 {
			dst[len(dst)-1] = opening
		}
		if c.names != nil {
			dst = append(dst, c.keys[i]...)
		}
		out, n, err := codec.RenderJSON(dst, encoded[at:], o)
		if err != nil {
			return dst, 0, err
		}
		dst, at = out, at+n
	}
	return append(dst, closing), at, nil
}

func (c *tupleCodec) Skip(encoded []byte) (int, error) {
	at := 0
	for _, codec := range c.elems {
		n, err := codec.Skip(encoded[at:])
		if err != nil {
			return 0, err
		}
		at += n
	}
	return at, nil
}

// Compare orders by the first members that differ.
func (c *tupleCodec) Compare(a, b []byte) (int, bool) {
	for _, codec := range c.elems {
		cmp, ok := codec.Compare(a, b)
		if !ok || cmp != 0 {
			return cmp, ok
		}
		n, err := codec.Skip(a)
		m, err2 := codec.Skip(b)
		if err != nil || err2 != nil {
			return 0, false
		}
		a, b = a[n:], b[m:]
	}
	return 0, true
}
