package units

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// maxText bounds the text of one value.
const maxText = 64

// sum adds up a text of numbers that carry a unit each. It is not ok when the
// text is something else, or has more numbers than that.
func sum(s string, scales map[string]int64, numbers int) (total *big.Rat, ok bool) {
	total = new(big.Rat)
	if s == "" || len(s) > maxText {
		return total, false
	}
	for rest := s; rest != "" && s != "0"; numbers-- {
		var number, unit string
		number, unit, rest = splitUnit(rest)
		scale := scales[unit]
		if number == "" || scale == 0 || numbers == 0 {
			return total, false
		}
		total.Add(total, scaled(number, scale))
	}
	return total, true
}

// splitUnit takes one number and the unit after it from the front of s.
func splitUnit(s string) (number, unit, rest string) {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	j := i
	for j < len(s) && (s[j] < '0' || s[j] > '9') && s[j] != '.' {
		j++
	}
	if _, err := strconv.ParseFloat(s[:i], 64); err != nil {
		return "", "", ""
	}
	return s[:i], s[i:j], s[j:]
}

// scaled multiplies digits, already known to be a number, by scale.
func scaled(digits string, scale int64) *big.Rat {
	r, ok := new(big.Rat).SetString(strings.TrimSuffix(digits, "."))
	if !ok {
		r = new(big.Rat)
	}
	return r.Mul(r, new(big.Rat).SetInt64(scale))
}

// times multiplies a JSON number by scale, exactly.
func times(number string, scale int64) (int64, error) {
	// An exponent would let a short text ask for a number of any length.
	if len(number) > maxText || strings.ContainsAny(number, "eE") {
		return 0, fmt.Errorf("%s is not a plain decimal number", excerpt.Quoted(number))
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("%s is not a number", excerpt.Quoted(number))
	}
	if r.Sign() < 0 {
		return 0, fmt.Errorf("%s is negative", number)
	}
	n, err := whole(r.Mul(r, new(big.Rat).SetInt64(scale)))
	if err != nil {
		return 0, fmt.Errorf("%s is too large", number)
	}
	return n, nil
}

// whole drops the fraction of r, which is not negative.
func whole(r *big.Rat) (int64, error) {
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if !n.IsInt64() {
		return math.MaxInt64, strconv.ErrRange
	}
	return n.Int64(), nil
}
