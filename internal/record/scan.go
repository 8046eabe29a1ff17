package record

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth bounds how deep arrays and objects nest in a record.
const maxDepth = 64

// syntax is what is wrong with a piece of JSON; 0 is nothing.
type syntax uint8

const (
	fine syntax = iota
	unexpectedEnd
	unexpectedByte
	controlInString
	badEscape
	loneSurrogate
	notUTF8
	badNumber
	tooDeep
)

// messages are the sentences of the syntax faults.
var messages = [...]string{
	unexpectedEnd:   "the JSON ends too early",
	unexpectedByte:  "unexpected character",
	controlInString: "a control character stands unescaped in a string",
	badEscape:       "a string holds a bad escape",
	loneSurrogate:   "a string holds half of a surrogate pair",
	notUTF8:         "a string is not valid UTF-8",
	badNumber:       "malformed number",
	tooDeep:         "arrays and objects nest deeper than 64",
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// zeroBytes has the high bit set of w's lowest byte that is zero; bits above
// that one mean nothing.
func zeroBytes(w uint64) uint64 { return (w - lowBits) & ^w & highBits }

// stopBytes has the high bit set of w's lowest byte that a JSON string may not
// hold as it is: a quote, a backslash or a control character.
func stopBytes(w uint64) uint64 {
	control := (w - lowBits*0x20) & ^w & highBits
	return control | zeroBytes(w^lowBits*'"') | zeroBytes(w^lowBits*'\\')
}

// skipSpace returns the offset of the first byte from at on that is no JSON
// white space.
func skipSpace(b []byte, at int) int {
	for at < len(b) && b[at] <= ' ' && isSpace(b[at]) {
		at++
	}
	return at
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// scanValue checks the value that starts at b[at] and returns the offset after
// it, or the offset of what is wrong with it.
func scanValue(b []byte, at, depth int) (end int, fault syntax) {
	if at >= len(b) {
		return at, unexpectedEnd
	}
	switch c := b[at]; {
	case c == '"':
		return scanString(b, at)
	case c == '-' || c-'0' <= 9:
		return scanNumber(b, at)
	case c == '{' || c == '[':
		return scanComposite(b, at, depth+1)
	case c == 't':
		return scanWord(b, at, "true")
	case c == 'f':
		return scanWord(b, at, "false")
	case c == 'n':
		return scanWord(b, at, "null")
	}
	return at, unexpectedByte
}

func scanWord(b []byte, at int, word string) (end int, fault syntax) {
	for i := range len(word) {
		if at+i == len(b) {
			return at + i, unexpectedEnd
		}
		if b[at+i] != word[i] {
			return at + i, unexpectedByte
		}
	}
	return at + len(word), fine
}

// scanString checks the string whose opening quote is b[at].
func scanString(b []byte, at int) (end int, fault syntax) {
	i, high := at+1, uint64(0)
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		stop := stopBytes(w)
		if stop == 0 {
			high |= w
			i += 8
			continue
		}
		n := bits.TrailingZeros64(stop) &^ 7
		high |= w & (1<<n - 1)
		i += n >> 3
		if b[i] == '"' {
			return stringEnd(b, at, i, high&highBits != 0)
		}
		if i, fault = scanEscape(b, i); fault != fine {
			return i, fault
		}
	}
	return scanStringTail(b, at, i, high&highBits != 0)
}

// scanStringTail goes on byte by byte where fewer than eight are left.
func scanStringTail(b []byte, at, i int, high bool) (end int, fault syntax) {
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			return stringEnd(b, at, i, high)
		case c == '\\' || c < 0x20:
			if i, fault = scanEscape(b, i); fault != fine {
				return i, fault
			}
		default:
			high = high || c >= utf8.RuneSelf
			i++
		}
	}
	return len(b), unexpectedEnd
}

// stringEnd ends the string between the quotes at b[at] and b[i].
func stringEnd(b []byte, at, i int, high bool) (end int, fault syntax) {
	if high && !utf8.Valid(b[at+1:i]) {
		return at, notUTF8
	}
	return i + 1, fine
}

// scanEscape checks the escape at b[i], which may be a control character
// instead, and returns the offset after it.
func scanEscape(b []byte, i int) (after int, fault syntax) {
	if b[i] != '\\' {
		return i, controlInString
	}
	if i+1 >= len(b) {
		return len(b), unexpectedEnd
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, fine
	case 'u':
		return scanUnicode(b, i)
	}
	return i, badEscape
}

// scanUnicode checks a \uXXXX escape; a high surrogate needs its other half.
func scanUnicode(b []byte, i int) (after int, fault syntax) {
	unit, ok := hex4(b, i+2)
	switch {
	case !ok:
		return i, badEscape
	case unit < 0xD800 || unit > 0xDFFF:
		return i + 6, fine
	case unit > 0xDBFF || i+7 >= len(b) || b[i+6] != '\\' || b[i+7] != 'u':
		return i, loneSurrogate
	}
	if low, ok := hex4(b, i+8); !ok || low < 0xDC00 || low > 0xDFFF {
		return i, loneSurrogate
	}
	return i + 12, fine
}

// hex4 reads four hexadecimal digits at b[at].
func hex4(b []byte, at int) (unit rune, ok bool) {
	if at+4 > len(b) {
		return 0, false
	}
	for _, c := range b[at : at+4] {
		d := hexDigit(c)
		if d > 15 {
			return 0, false
		}
		unit = unit<<4 | rune(d)
	}
	return unit, true
}

// hexDigit returns the value of a hexadecimal digit, over 15 when c is none.
func hexDigit(c byte) byte {
	switch {
	case c-'0' <= 9:
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0xFF
}

// scanNumber checks the number at b[at].
func scanNumber(b []byte, at int) (end int, fault syntax) {
	i := at
	if b[i] == '-' {
		i++
	}
	whole := i
	i = digitsEnd(b, i)
	if i == whole || i > whole+1 && b[whole] == '0' {
		return at, badNumber
	}
	if i < len(b) && b[i] == '.' {
		fraction := i + 1
		if i = digitsEnd(b, fraction); i == fraction {
			return at, badNumber
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exponent := i
		if i = digitsEnd(b, exponent); i == exponent {
			return at, badNumber
		}
	}
	return i, fine
}

func digitsEnd(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanComposite checks the array or object at b[at], itself at depth.
func scanComposite(b []byte, at, depth int) (end int, fault syntax) {
	if depth > maxDepth {
		return at, tooDeep
	}
	closing := b[at] + 2 // '[' to ']', '{' to '}'
	i := skipSpace(b, at+1)
	if i < len(b) && b[i] == closing {
		return i + 1, fine
	}
	for {
		if closing == '}' {
			if i, fault = scanKey(b, i); fault != fine {
				return i, fault
			}
		}
		if i, fault = scanValue(b, i, depth); fault != fine {
			return i, fault
		}
		i = skipSpace(b, i)
		switch {
		case i >= len(b):
			return i, unexpectedEnd
		case b[i] == closing:
			return i + 1, fine
		case b[i] != ',':
			return i, unexpectedByte
		}
		i = skipSpace(b, i+1)
	}
}

// scanKey checks a key and its colon and returns the offset of the value.
func scanKey(b []byte, i int) (value int, fault syntax) {
	if i >= len(b) {
		return i, unexpectedEnd
	}
	if b[i] != '"' {
		return i, unexpectedByte
	}
	if i, fault = scanString(b, i); fault != fine {
		return i, fault
	}
	return scanColon(b, i)
}

func scanColon(b []byte, i int) (value int, fault syntax) {
	i = skipSpace(b, i)
	if i >= len(b) {
		return i, unexpectedEnd
	}
	if b[i] != ':' {
		return i, unexpectedByte
	}
	return skipSpace(b, i+1), fine
}
