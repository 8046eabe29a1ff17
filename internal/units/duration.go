// Package units reads durations and sizes as people write them: "90s", "7d",
// "512MiB".
package units

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// Day is 24 hours: a calendar's shorter and longer days are not counted.
const Day = 24 * time.Hour

// Week is seven days.
const Week = 7 * Day

// maxText bounds the text of one value.
const maxText = 64

// ParseDuration reads a duration that is not negative: one or more numbers with
// a unit (ns, us, ms, s, m, h, d, w), for example "90s", "1h30m" or "7d". "0"
// needs no unit.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	if s == "" || len(s) > maxText {
		return 0, durationError(s)
	}
	total := new(big.Rat)
	for rest := s; rest != ""; {
		number, unit, after := splitUnit(rest)
		scale, ok := durationUnit(unit)
		if number == "" || !ok {
			return 0, durationError(s)
		}
		total.Add(total, scaled(number, int64(scale)))
		rest = after
	}
	n, err := whole(total)
	if err != nil {
		return 0, fmt.Errorf("duration %q is too long", s)
	}
	return time.Duration(n), nil
}

// DurationOf converts a JSON number of units to a duration. The number may have
// a fraction.
func DurationOf(number string, unit time.Duration) (time.Duration, error) {
	n, err := times(number, int64(unit))
	return time.Duration(n), err
}

// DurationUnit returns the duration that a unit's name stands for.
func DurationUnit(name string) (time.Duration, bool) { return durationUnit(name) }

func durationUnit(name string) (time.Duration, bool) {
	switch name {
	case "ns":
		return time.Nanosecond, true
	case "us", "µs":
		return time.Microsecond, true
	case "ms":
		return time.Millisecond, true
	case "s":
		return time.Second, true
	case "m":
		return time.Minute, true
	case "h":
		return time.Hour, true
	case "d":
		return Day, true
	case "w":
		return Week, true
	}
	return 0, false
}

func durationError(s string) error {
	return fmt.Errorf(`%s is not a duration: want a number with a unit, like "90s", "12h" or "7d"`, excerpt.Quoted(s))
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
