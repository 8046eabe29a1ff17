package units

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// ParseSize reads a size in bytes: a number with a unit, for example "512MiB",
// "1.5GB" or "100B". KB, MB, GB and TB are powers of a thousand, KiB, MiB, GiB
// and TiB of 1024. "0" needs no unit.
func ParseSize(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	if s == "" || len(s) > maxText {
		return 0, sizeError(s)
	}
	number, unit, rest := splitUnit(s)
	scale, ok := sizeUnit(unit)
	if number == "" || rest != "" || !ok {
		return 0, sizeError(s)
	}
	n, err := whole(scaled(number, scale))
	if err != nil {
		return 0, fmt.Errorf("size %q is too large", s)
	}
	return n, nil
}

// SizeOf converts a JSON number of units to bytes. The number may have a
// fraction.
func SizeOf(number string, unit int64) (int64, error) { return times(number, unit) }

// SizeUnit returns the number of bytes that a unit's name stands for.
func SizeUnit(name string) (int64, bool) { return sizeUnit(name) }

func sizeUnit(name string) (int64, bool) {
	switch name {
	case "B":
		return 1, true
	case "KB", "kB":
		return 1e3, true
	case "MB":
		return 1e6, true
	case "GB":
		return 1e9, true
	case "TB":
		return 1e12, true
	case "KiB":
		return 1 << 10, true
	case "MiB":
		return 1 << 20, true
	case "GiB":
		return 1 << 30, true
	case "TiB":
		return 1 << 40, true
	}
	return 0, false
}

func sizeError(s string) error {
	return fmt.Errorf(`%s is not a size: want a number with a unit, like "512MiB" or "1GB"`, excerpt.Quoted(s))
}

// FormatSize writes n bytes with the unit that gives the smallest whole number,
// so that ParseSize reads back the same n.
func FormatSize(n int64) string {
	if n <= 0 {
		return "0"
	}
	count, name := n, "B"
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "KB"} {
		if scale, _ := sizeUnit(unit); n%scale == 0 && n/scale < count {
			count, name = n/scale, unit
		}
	}
	return strconv.FormatInt(count, 10) + name
}

// FormatNumber writes n bytes as a decimal number of the given unit.
func FormatNumber(n, unit int64) string {
	text := new(big.Rat).SetFrac64(n, unit).FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
