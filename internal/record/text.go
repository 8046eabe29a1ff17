package record

import (
	"bytes"
	"unicode/utf8"
	"unsafe"
)

// scalarText returns the text of a JSON string or number; other values are no
// value of the type.
func scalarText(typeName string, value []byte) (text []byte, fault *Error) {
	switch c := value[0]; {
	case c == '"':
		return unquote(value), nil
	case c == '-' || c-'0' <= 9:
		return value, nil
	}
	return nil, wrongKind(typeName, value)
}

// stringText returns the text of a JSON string; other values are no value of
// the type.
func stringText(typeName string, value []byte) (text []byte, fault *Error) {
	if value[0] == '"' {
		return unquote(value), nil
	}
	return nil, wrongKind(typeName, value)
}

// wrongKind refuses a value for the kind of JSON it is.
func wrongKind(typeName string, value []byte) *Error {
	switch value[0] {
	case 'n':
		return nullNotAllowed(typeName)
	case '{':
		return mismatchf("an object is not a value of type %s", typeName)
	case '[':
		return mismatchf("an array is not a value of type %s", typeName)
	}
	return mismatch(typeName, value)
}

// unquote returns the text of a JSON string that passed scanString. Without
// escapes that is a part of value itself.
func unquote(value []byte) []byte {
	raw := value[1 : len(value)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return unescape(make([]byte, 0, len(raw)), raw)
}

// unescape appends raw, the inside of a string that passed scanString, with
// its escapes resolved. The result is never longer than raw.
func unescape(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			dst, raw = unescapeUnicode(dst, raw)
		default:
			dst = append(dst, c)
		}
	}
}

// unescapeUnicode resolves what follows \u, the second half of a pair included.
func unescapeUnicode(dst, raw []byte) (out, rest []byte) {
	r, _ := hex4(raw, 0)
	raw = raw[4:]
	if r >= 0xD800 && r <= 0xDFFF {
		low, _ := hex4(raw, 2)
		r = (r-0xD800)<<10 | (low - 0xDC00) + 0x10000
		raw = raw[6:]
	}
	return utf8.AppendRune(dst, r), raw
}

// view returns b as a string without a copy. The string must not outlive the
// call it is made for.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// The escapes of a JSON string as ClickHouse writes them.
const (
	shortEscapes = "\b\f\n\r\t\"\\"
	shortLetters = "bfnrt\"\\"
	upperHex     = "0123456789ABCDEF"
)

// AppendJSONString appends s as a JSON string exactly as ClickHouse writes it:
// bytes that are not UTF-8 stay as they are, a slash is not escaped, U+2028 and
// U+2029 are.
func AppendJSONString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0xE2 {
			continue
		}
		if c == 0xE2 {
			if i+2 < len(s) && s[i+1] == 0x80 && s[i+2]&^1 == 0xA8 {
				dst = append(append(dst, s[start:i]...), `\u202`...)
				dst = append(dst, '8'+s[i+2]&1)
				i += 2
				start = i + 1
			}
			continue
		}
		dst = appendEscape(append(dst, s[start:i]...), c)
		start = i + 1
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	for i := range len(shortEscapes) {
		if shortEscapes[i] == c {
			return append(dst, '\\', shortLetters[i])
		}
	}
	return append(dst, '\\', 'u', '0', '0', upperHex[c>>4], upperHex[c&15])
}
