package record

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// wide is an unsigned integer of 256 bits, least significant word first.
type wide [4]uint64

// wordDigits is how many decimal digits fit a uint64.
const wordDigits = 19

// tens are the powers of ten that fit a uint64.
var tens = [...]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10,
	1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// mulAdd sets w to w*m+a and reports whether that fits.
func (w *wide) mulAdd(m, a uint64) bool {
	carry := a
	for i := range w {
		high, low := bits.Mul64(w[i], m)
		var c uint64
		w[i], c = bits.Add64(low, carry, 0)
		carry = high + c
	}
	return carry == 0
}

// divide sets w to w/d and returns the remainder.
func (w *wide) divide(d uint64) (rest uint64) {
	for i := len(w) - 1; i >= 0; i-- {
		w[i], rest = bits.Div64(rest, w[i], d)
	}
	return rest
}

// negate sets w to its two's complement.
func (w *wide) negate() {
	carry := uint64(1)
	for i := range w {
		w[i], carry = bits.Add64(^w[i], 0, carry)
	}
}

func (w *wide) isZero() bool { return w[0]|w[1]|w[2]|w[3] == 0 }

// compare orders two magnitudes.
func (w *wide) compare(o *wide) int {
	for i := len(w) - 1; i >= 0; i-- {
		if w[i] != o[i] {
			return order(w[i], o[i])
		}
	}
	return 0
}

func order[T ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int | ~float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// bitLen is the number of bits without leading zeros.
func (w *wide) bitLen() int {
	for i := len(w) - 1; i >= 0; i-- {
		if w[i] != 0 {
			return i*64 + bits.Len64(w[i])
		}
	}
	return 0
}

// fits reports whether the number with this magnitude and sign is in the range
// of an integer of size bytes.
func (w *wide) fits(negative, signed bool, size int) bool {
	n := w.bitLen()
	switch {
	case !signed:
		return n <= size*8 && (!negative || n == 0)
	case n < size*8:
		return true
	}
	return negative && n == size*8 && w.isPowerOfTwo(n-1)
}

func (w *wide) isPowerOfTwo(bit int) bool {
	var power wide
	power[bit/64] = 1 << (bit % 64)
	return *w == power
}

// addDigits multiplies w by ten and adds, digit by digit, and reports whether
// the result fits.
func (w *wide) addDigits(digits []byte) bool {
	for len(digits) > 0 {
		n := min(wordDigits, len(digits))
		part := uint64(0)
		for _, c := range digits[:n] {
			part = part*10 + uint64(c-'0')
		}
		if !w.mulAdd(tens[n], part) {
			return false
		}
		digits = digits[n:]
	}
	return true
}

// scale multiplies w by 10^n and reports whether the result fits.
func (w *wide) scale(n int) bool {
	for n > 0 && !w.isZero() {
		step := min(n, wordDigits)
		if !w.mulAdd(tens[step], 0) {
			return false
		}
		n -= step
	}
	return true
}

// appendTo appends the low size bytes, little endian.
func (w *wide) appendTo(dst []byte, size int) []byte {
	for i := 0; size > 0; i++ {
		if size >= 8 {
			dst = binary.LittleEndian.AppendUint64(dst, w[i])
			size -= 8
			continue
		}
		return binary.LittleEndian.AppendUint32(dst, uint32(w[i]))
	}
	return dst
}

// wideFrom reads a little-endian integer; a signed one is returned as its
// magnitude and sign.
func wideFrom(encoded []byte, signed bool) (w wide, negative bool) {
	negative = signed && encoded[len(encoded)-1] >= 0x80
	if negative {
		w = wide{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	}
	for i, c := range encoded {
		shift := uint(i%8) * 8
		w[i/8] = w[i/8]&^(0xFF<<shift) | uint64(c)<<shift
	}
	if negative {
		w.negate()
	}
	return w, negative
}

// appendDecimal appends w in decimal.
func (w wide) appendDecimal(dst []byte) []byte {
	if w[1]|w[2]|w[3] == 0 {
		return strconv.AppendUint(dst, w[0], 10)
	}
	rest := w.divide(tens[wordDigits])
	dst = w.appendDecimal(dst)
	return appendPadded(dst, rest, wordDigits)
}

// appendPadded appends n in decimal with zeros in front, width digits in all.
func appendPadded(dst []byte, n uint64, width int) []byte {
	for i := width - 1; i >= 0; i-- {
		dst = append(dst, byte('0'+n/tens[i]%10))
	}
	return dst
}
