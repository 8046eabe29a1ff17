package record

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// tsvField reads the field at b[at] and returns the offset of what ends it: a
// separator, a line feed, or the end of b. What follows a backslash ends
// nothing.
func tsvField(b []byte, at int, separator byte) (f textField, end int) {
	end = at
	for {
		end = escapableEnd(b, end, separator)
		if end == len(b) || b[end] != '\\' {
			break
		}
		if end += 2; end > len(b) {
			end, f.fault = len(b), malformed("a backslash stands at the end of the body")
			break
		}
	}
	f.text = trimReturn(b, extent{at, end})
	if string(b[f.text.from:f.text.to]) == nullText {
		f.is = nullField
	}
	return f, end
}

// escapableEnd returns the offset of the next separator, line feed or
// backslash.
func escapableEnd(b []byte, at int, separator byte) int {
	marks := lowBits * uint64(separator)
	for ; at+8 <= len(b); at += 8 {
		w := binary.LittleEndian.Uint64(b[at:])
		if stop := zeroBytes(w^marks) | zeroBytes(w^lowBits*'\n') | zeroBytes(w^lowBits*'\\'); stop != 0 {
			return at + bits.TrailingZeros64(stop)>>3
		}
	}
	for at < len(b) && b[at] != separator && b[at] != '\n' && b[at] != '\\' {
		at++
	}
	return at
}

// appendUnescaped appends text with ClickHouse's escapes resolved.
func appendUnescaped(dst, raw []byte) ([]byte, *Error) {
	start := len(dst)
	hexadecimal := false
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			dst = append(dst, raw...)
			break
		}
		dst = append(dst, raw[:n]...)
		if n+1 == len(raw) {
			return dst, malformed("a field ends in a backslash")
		}
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
		case 'x':
			if len(raw) < 2 || hexDigit(raw[0]) > 15 || hexDigit(raw[1]) > 15 {
				return dst, malformed(`\x needs two hexadecimal digits`)
			}
			dst, raw, hexadecimal = append(dst, hexDigit(raw[0])<<4|hexDigit(raw[1])), raw[2:], true
		case 'N':
			return dst, malformed(`\N stands within a field`)
		default:
			dst = appendSimpleEscape(dst, c)
		}
	}
	if hexadecimal && !utf8.Valid(dst[start:]) {
		return dst, malformed("the bytes that a field's escapes make are not valid UTF-8")
	}
	return dst, nil
}

// appendSimpleEscape appends what a backslash and c mean. A backslash before a
// character without a meaning of its own is kept, as in ClickHouse.
func appendSimpleEscape(dst []byte, c byte) []byte {
	switch c {
	case '0':
		return append(dst, 0)
	case 'a':
		return append(dst, '\a')
	case 'b':
		return append(dst, '\b')
	case 'e':
		return append(dst, 0x1B)
	case 'f':
		return append(dst, '\f')
	case 'n':
		return append(dst, '\n')
	case 'r':
		return append(dst, '\r')
	case 't':
		return append(dst, '\t')
	case 'v':
		return append(dst, '\v')
	case '\\', '\'', '"', '`', '/':
		return append(dst, c)
	}
	if c < ' ' || c == 0x7F {
		return append(dst, c)
	}
	return append(dst, '\\', c)
}
