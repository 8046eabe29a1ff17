package record

// number is a number's text taken apart: sign, digits on both sides of the
// point, power of ten.
type number struct {
	negative        bool
	whole, fraction []byte
	exponent        int
	// plain is false when the text has a point or an exponent.
	plain bool
}

// maxExponent is where exponents stop growing: beyond any type's range.
const maxExponent = 1 << 30

// parseNumber takes a number's text apart. Besides JSON's grammar it takes what
// ClickHouse takes in a quoted number: a plus sign, leading zeros, and no digit
// on one side of the point.
func parseNumber(text []byte) (n number, ok bool) {
	i := 0
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		n.negative = text[i] == '-'
		i++
	}
	start := i
	i = digitsEnd(text, i)
	n.whole, n.plain = text[start:i], true
	if i < len(text) && text[i] == '.' {
		start, n.plain = i+1, false
		i = digitsEnd(text, start)
		n.fraction = text[start:i]
	}
	if len(n.whole)+len(n.fraction) == 0 {
		return n, false
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		n.plain = false
		n.exponent, i = parseExponent(text, i+1)
	}
	return n, i == len(text)
}

// parseExponent reads an exponent; after is -1 when there is none.
func parseExponent(text []byte, i int) (exponent, after int) {
	negative := false
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		negative = text[i] == '-'
		i++
	}
	start := i
	for ; i < len(text) && text[i]-'0' <= 9; i++ {
		exponent = min(exponent*10+int(text[i]-'0'), maxExponent)
	}
	if i == start {
		return 0, -1
	}
	if negative {
		exponent = -exponent
	}
	return exponent, i
}

// trimZeros drops leading zeros.
func trimZeros(digits []byte) []byte {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits
}

// fit is how a number's text fares against a type.
type fit uint8

const (
	fits fit = iota
	notNumber
	notWhole
	tooWide
)

// parseUint64 reads a plain integer of up to 64 bits of magnitude.
func parseUint64(text []byte) (magnitude uint64, negative bool, result fit) {
	i := 0
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		i = 1
	}
	digits := text[i:]
	if len(digits) == 0 {
		return 0, negative, notNumber
	}
	if len(digits) >= wordDigits {
		return parseLongUint64(text, trimZeros(digits), negative)
	}
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, negative, badInteger(text)
		}
		magnitude = magnitude*10 + uint64(c-'0')
	}
	return magnitude, negative, fits
}

func parseLongUint64(text, digits []byte, negative bool) (uint64, bool, fit) {
	if digitsEnd(digits, 0) != len(digits) {
		return 0, negative, badInteger(text)
	}
	var w wide
	if len(digits) > wordDigits+1 || !w.addDigits(digits) || w[1] != 0 {
		return 0, negative, tooWide
	}
	return w[0], negative, fits
}

// badInteger tells a number that is no plain integer from no number at all.
func badInteger(text []byte) fit {
	if _, ok := parseNumber(text); ok {
		return notWhole
	}
	return notNumber
}

// parseWide reads a plain integer of up to 256 bits of magnitude.
func parseWide(text []byte) (w wide, negative bool, result fit) {
	n, ok := parseNumber(text)
	switch {
	case !ok:
		return w, false, notNumber
	case !n.plain:
		return w, false, notWhole
	}
	digits := trimZeros(n.whole)
	if len(digits) > 78 || !w.addDigits(digits) {
		return w, n.negative, tooWide
	}
	return w, n.negative, fits
}

// parseScaled reads a number times 10^scale. It is notWhole when digits other
// than zero are left after that.
func parseScaled(text []byte, scale int) (w wide, negative bool, result fit) {
	n, ok := parseNumber(text)
	if !ok {
		return w, false, notNumber
	}
	whole, fraction := trimZeros(n.whole), n.fraction
	if len(whole) == 0 {
		fraction = trimZeros(fraction)
	}
	power := n.exponent - len(n.fraction) + scale
	for power < 0 && len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction, power = fraction[:len(fraction)-1], power+1
	}
	for power < 0 && len(fraction) == 0 && len(whole) > 0 && whole[len(whole)-1] == '0' {
		whole, power = whole[:len(whole)-1], power+1
	}
	switch digits := len(whole) + len(fraction); {
	case digits == 0:
		return w, n.negative, fits
	case power < 0:
		return w, n.negative, notWhole
	case digits+power > 78 || !w.addDigits(whole) || !w.addDigits(fraction) || !w.scale(power):
		return w, n.negative, tooWide
	}
	return w, n.negative, fits
}
