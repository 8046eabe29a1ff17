package record

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// fieldEnd returns the offset of the separator or line feed that ends a field
// without quotes.
func fieldEnd(b []byte, at int, separator byte) int {
	marks := lowBits * uint64(separator)
	for ; at+8 <= len(b); at += 8 {
		w := binary.LittleEndian.Uint64(b[at:])
		if stop := zeroBytes(w^marks) | zeroBytes(w^lowBits*'\n'); stop != 0 {
			return at + bits.TrailingZeros64(stop)>>3
		}
	}
	for at < len(b) && b[at] != separator && b[at] != '\n' {
		at++
	}
	return at
}

// trimReturn takes off the carriage return of a line break that follows s.
func trimReturn(b []byte, s extent) extent {
	if (s.to == len(b) || b[s.to] == '\n') && s.to > s.from && b[s.to-1] == '\r' {
		s.to--
	}
	return s
}

// csvField reads the field at b[at] and returns the offset of what ends it: a
// separator, a line feed, or the end of b. Quotes must be known to close.
func csvField(b []byte, at int, separator byte) (f textField, end int) {
	if open := skipBlanks(b, at); open < len(b) && b[open] == '"' {
		return csvQuoted(b, open, separator)
	}
	end = fieldEnd(b, at, separator)
	s := trimReturn(b, extent{at, end})
	f.text = s
	switch {
	case s.to == s.from:
		f.is = omittedField
	case string(b[s.from:s.to]) == nullText:
		f.is = nullField
	case skipBlanks(b[:s.to], s.from) == s.to:
		f.is = blankField
	}
	return f, end
}

// csvQuoted reads the field whose opening quote is b[open].
func csvQuoted(b []byte, open int, separator byte) (f textField, end int) {
	quote := closingQuote(b, open)
	f.text = extent{open + 1, quote}
	after := skipBlanks(b, quote+1)
	end = fieldEnd(b, after, separator)
	if rest := trimReturn(b, extent{after, end}); rest.to > rest.from {
		f.fault = malformed("%s follows the closing quote of a field", excerpt.Of(b[rest.from:rest.to]))
	}
	return f, end
}

// skipBlanks returns the offset of the first byte from at on that is neither a
// space nor a tab.
func skipBlanks(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t') {
		at++
	}
	return at
}

// trimBlanks takes spaces and tabs off both ends.
func trimBlanks(text []byte) []byte {
	text = text[skipBlanks(text, 0):]
	for n := len(text); n > 0 && (text[n-1] == ' ' || text[n-1] == '\t'); n-- {
		text = text[:n-1]
	}
	return text
}

// closingQuote returns the offset of the quote that closes the one at b[open],
// or -1. Two quotes in a row are one of the text.
func closingQuote(b []byte, open int) int {
	for at := open + 1; ; at += 2 {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}
		if at += n; at+1 >= len(b) || b[at+1] != '"' {
			return at
		}
	}
}

// openQuote returns the offset of a quote that opens a field and does not
// close, or -1.
func openQuote(b []byte, separator byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}
		if at += n; !opensField(b, at, separator) {
			at++
			continue
		}
		quote := closingQuote(b, at)
		if quote < 0 {
			return at
		}
		at = quote + 1
	}
}

// opensField reports whether nothing but blanks stands between b[at] and the
// start of its field.
func opensField(b []byte, at int, separator byte) bool {
	for at > 0 && (b[at-1] == ' ' || b[at-1] == '\t') {
		at--
	}
	return at == 0 || b[at-1] == separator || b[at-1] == '\n'
}

// undouble appends the inside of a quoted field with its quotes resolved.
func undouble(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '"')
		if n < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n+1]...)
		raw = raw[n+2:]
	}
}
