package units

import (
	"fmt"
	"strconv"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// sizes holds the units of sizes, in bytes.
var sizes = map[string]int64{
	"B": 1, "KB": 1e3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// ParseSize reads a size in bytes: a number with a unit, for example "512MiB",
// "1.5GB" or "100B". KB, MB, GB and TB are powers of a thousand, KiB, MiB, GiB
// and TiB of 1024. "0" needs no unit.
func ParseSize(s string) (int64, error) {
	total, ok := sum(s, sizes, 1)
	if !ok {
		return 0, fmt.Errorf(`%s is not a size: want a number with a unit, like "512MiB" or "1GB"`, excerpt.Quoted(s))
	}
	n, err := whole(total)
	if err != nil {
		return 0, fmt.Errorf("size %q is too large", s)
	}
	return n, nil
}

// SizeOf converts a JSON number of the named unit to bytes. The number may have
// a fraction.
func SizeOf(number, unit string) (int64, error) { return times(number, sizes[unit]) }

// FormatSize writes n bytes with the unit that gives the smallest whole number,
// so that ParseSize reads back the same n.
func FormatSize(n int64) string {
	if n <= 0 {
		return "0"
	}
	count, name := n, "B"
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "KB"} {
		if scale := sizes[unit]; n%scale == 0 && n/scale < count {
			count, name = n/scale, unit
		}
	}
	return strconv.FormatInt(count, 10) + name
}
