package record

import (
	"encoding/binary"
	"math/bits"
)

// What follows walks JSON by its quotes and brackets alone. It finds where a
// value ends without judging it, in linear time at any depth.

// stringStop returns the offset after the string whose opening quote is b[at],
// or -1 when it has no end.
func stringStop(b []byte, at int) int {
	i := at + 1
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		stop := zeroBytes(w^lowBits*'"') | zeroBytes(w^lowBits*'\\')
		if stop == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(stop) >> 3; b[i] == '"' {
			return i + 1
		}
		i += 2
	}
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// valueEnd returns the offset after the value that starts at b[at]. The value
// must have passed scanValue.
func valueEnd(b []byte, at int) int {
	switch b[at] {
	case '"':
		return stringStop(b, at)
	case '{', '[':
		return compositeStop(b, at)
	}
	for at < len(b) && b[at] != ',' && b[at] != '}' && b[at] != ']' && b[at] > ' ' {
		at++
	}
	return at
}

// compositeStop returns the offset after the array or object that starts at
// b[at], or -1 when it has no end or its brackets do not pair.
func compositeStop(b []byte, at int) int {
	var open brackets
	for i := nextMark(b, at); i < len(b); i = nextMark(b, i) {
		switch c := b[i]; c {
		case '"':
			if i = stringStop(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			open.push(c)
		case '}', ']':
			if !open.pop(c) {
				return -1
			}
			if open.depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// nextMark returns the offset of the first quote or bracket from i on, or of a
// byte that looks like one in eight at once (y and _ among others).
func nextMark(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// The four brackets differ in these bits alone.
		marks := zeroBytes(w^lowBits*'"') | zeroBytes((w|lowBits*0x26)^lowBits*0x7F)
		if marks != 0 {
			return i + bits.TrailingZeros64(marks)>>3
		}
	}
	return i
}

// brackets is a stack of open brackets. Only the outermost 64 are told apart;
// deeper ones are just counted, for such a value is refused anyway.
type brackets struct {
	depth   int
	objects uint64
}

func (s *brackets) push(c byte) {
	if s.depth < 64 {
		bit := uint64(1) << s.depth
		if s.objects &^= bit; c == '{' {
			s.objects |= bit
		}
	}
	s.depth++
}

func (s *brackets) pop(c byte) bool {
	if s.depth == 0 {
		return false
	}
	s.depth--
	return s.depth >= 64 || s.objects>>s.depth&1 == 1 == (c == '}')
}

// elements walks the values of an array or the members of an object that
// passed scanValue.
type elements struct {
	b  []byte
	at int
}

// elementsOf starts a walk over a composite value.
func elementsOf(value []byte) elements { return elements{b: value, at: 1} }

// next returns the next array element, or false after the last.
func (e *elements) next() (value []byte, ok bool) {
	e.at = skipSpace(e.b, e.at)
	if e.b[e.at] == ',' {
		e.at = skipSpace(e.b, e.at+1)
	}
	if c := e.b[e.at]; c == ']' || c == '}' {
		return nil, false
	}
	start := e.at
	e.at = valueEnd(e.b, start)
	return e.b[start:e.at], true
}

// nextMember returns the next key, in its quotes, and its value.
func (e *elements) nextMember() (key, value []byte, ok bool) {
	if key, ok = e.next(); !ok {
		return nil, nil, false
	}
	e.at = skipSpace(e.b, skipSpace(e.b, e.at)+1)
	start := e.at
	e.at = valueEnd(e.b, start)
	return key, e.b[start:e.at], true
}
