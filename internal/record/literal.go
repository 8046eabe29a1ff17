package record

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// literal reads values in ClickHouse's notation: ['a',NULL], {'k':1}, (1,'x').
type literal struct {
	b  []byte
	at int
	// scratch holds a text whose escapes were resolved.
	scratch []byte
}

// appendComposite reads the text of an array, map or tuple: JSON when it is
// that, else ClickHouse's notation. Where it is both it means the same.
func appendComposite(c Codec, dst, field []byte) ([]byte, error) {
	if isJSON(field) {
		return c.AppendJSON(dst, field)
	}
	l := literal{b: field}
	out, err := l.value(dst, c)
	if err != nil {
		return dst, err
	}
	if l.space(); l.at < len(l.b) {
		return dst, l.unexpected("the end")
	}
	return out, nil
}

// value reads the value that comes next.
func (l *literal) value(dst []byte, c Codec) ([]byte, error) {
	l.space()
	switch c := c.(type) {
	case *nullableCodec:
		if l.null() {
			return append(dst, 1), nil
		}
		return l.value(append(dst, 0), c.elem)
	case *arrayCodec:
		return l.array(dst, c)
	case *mapCodec:
		return l.mapping(dst, c)
	case *tupleCodec:
		return l.tuple(dst, c)
	case *variantCodec:
		if l.null() {
			return append(dst, noType), nil
		}
		if l.at < len(l.b) && l.b[l.at] == '\'' {
			text, fault := l.quoted()
			if fault != nil {
				return dst, fault
			}
			return c.AppendJSON(dst, AppendJSONString(nil, text))
		}
	}
	return l.scalar(dst, c)
}

func (l *literal) array(dst []byte, c *arrayCodec) ([]byte, error) {
	start, count := len(dst), 0
	out := append(dst, 0)
	if err := l.expect('['); err != nil {
		return dst, err
	}
	for !l.closed(']') {
		if err := l.comma(count); err != nil {
			return dst, err
		}
		count++
		var err error
		if out, err = l.value(out, c.elem); err != nil {
			return dst, within(err, "element %d", count)
		}
		if len(out)-start > maxValueBytes {
			return dst, valueTooLarge(c.name)
		}
	}
	return setCount(out, start, count), nil
}

func (l *literal) mapping(dst []byte, c *mapCodec) ([]byte, error) {
	start, count := len(dst), 0
	out := append(dst, 0)
	if err := l.expect('{'); err != nil {
		return dst, err
	}
	var seen keySet
	for !l.closed('}') {
		if err := l.comma(count); err != nil {
			return dst, err
		}
		count++
		at := len(out)
		var err error
		if out, err = l.value(out, c.key); err != nil {
			return dst, within(err, "key %d", count)
		}
		if !seen.add(out, at) {
			return dst, &Error{Code: CodeDuplicateColumn, Message: "a key of the map stands more than once"}
		}
		if err := l.expect(':'); err != nil {
			return dst, err
		}
		if out, err = l.value(out, c.value); err != nil {
			return dst, within(err, "value of key %d", count)
		}
		if len(out)-start > maxValueBytes {
			return dst, valueTooLarge(c.name)
		}
	}
	return setCount(out, start, count), nil
}

func (l *literal) tuple(dst []byte, c *tupleCodec) ([]byte, error) {
	if err := l.expect('('); err != nil {
		return dst, err
	}
	out := dst
	for i, elem := range c.elems {
		err := l.comma(i)
		if err != nil {
			return dst, err
		}
		if out, err = l.value(out, elem); err != nil {
			return dst, within(err, "element %d", i+1)
		}
	}
	if len(c.elems) == 1 { // (1,) is how ClickHouse writes it
		_ = l.comma(1)
	}
	return out, l.expect(')')
}

// scalar reads a text in quotes or, for types that are no texts, without.
func (l *literal) scalar(dst []byte, c Codec) ([]byte, error) {
	if l.at < len(l.b) && l.b[l.at] == '\'' {
		text, fault := l.quoted()
		if fault != nil {
			return dst, fault
		}
		return c.AppendText(dst, text)
	}
	start := l.at
	for l.at < len(l.b) && strings.IndexByte(",:]}) \t\r\n", l.b[l.at]) < 0 {
		l.at++
	}
	switch text := l.b[start:l.at]; {
	case strings.EqualFold(string(text), "null"):
		return dst, &Error{Code: CodeNullNotAllowed, Message: "NULL is not allowed here"}
	case isText(c) || len(text) == 0:
		l.at = start
		return dst, l.unexpected("a text in single quotes")
	default:
		return c.AppendText(dst, text)
	}
}

// quoted reads a text in single quotes, with ClickHouse's escapes or two
// quotes for one.
func (l *literal) quoted() ([]byte, *Error) {
	start := l.at + 1
	doubled := false
	for at := start; at < len(l.b); at++ {
		switch l.b[at] {
		case '\\':
			at++
		case '\'':
			if at+1 < len(l.b) && l.b[at+1] == '\'' {
				doubled = true
				at++
				continue
			}
			l.at = at + 1
			return l.unquote(l.b[start:at], doubled)
		}
	}
	return nil, mismatchf("a text's closing quote is missing")
}

func (l *literal) unquote(raw []byte, doubled bool) ([]byte, *Error) {
	if doubled {
		raw = escapeDoubled(raw)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, nil
	}
	var fault *Error
	l.scratch, fault = appendUnescaped(l.scratch[:0], raw)
	return l.scratch, fault
}

// escapeDoubled turns two quotes into an escaped one.
func escapeDoubled(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\'':
			out = append(out, '\\', c)
			i++
		case c == '\\' && i+1 < len(raw):
			out = append(out, c, raw[i+1])
			i++
		default:
			out = append(out, c)
		}
	}
	return out
}

// null takes a bare NULL.
func (l *literal) null() bool {
	end := l.at + len("NULL")
	if end > len(l.b) || !strings.EqualFold(string(l.b[l.at:end]), "NULL") {
		return false
	}
	l.at = end
	return true
}

func (l *literal) space() { l.at = skipSpace(l.b, l.at) }

// closed takes the closing bracket when it comes next.
func (l *literal) closed(bracket byte) bool {
	if l.space(); l.at < len(l.b) && l.b[l.at] == bracket {
		l.at++
		return true
	}
	return false
}

// comma takes the comma in front of every element but the first.
func (l *literal) comma(nth int) error {
	if nth == 0 {
		return nil
	}
	return l.expect(',')
}

func (l *literal) expect(c byte) error {
	if l.space(); l.at < len(l.b) && l.b[l.at] == c {
		l.at++
		return nil
	}
	return l.unexpected("'" + string(rune(c)) + "'")
}

// unexpected says what should have come next.
func (l *literal) unexpected(wanted string) *Error {
	if l.at >= len(l.b) {
		return mismatchf("the text ends where %s is expected", wanted)
	}
	_, size := utf8.DecodeRune(l.b[l.at:])
	return mismatchf("expected %s and found %s at byte %d of the text", wanted, l.b[l.at:l.at+size], l.at+1)
}

// isText reports whether values of the codec stand in quotes.
func isText(c Codec) bool {
	switch c.(type) {
	case *stringCodec, *fixedStringCodec, *enumCodec, *uuidCodec, *ipv4Codec, *ipv6Codec, *dateCodec, *clockCodec:
		return true
	}
	return false
}
