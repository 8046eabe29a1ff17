// Package units reads durations and sizes as people write them: "90s", "7d",
// "512MiB".
package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// Day is 24 hours: a calendar's shorter and longer days are not counted.
const Day = 24 * time.Hour

// Week is seven days.
const Week = 7 * Day

// durations holds the units of durations, in nanoseconds.
var durations = map[string]int64{
	"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9,
	"m": int64(time.Minute), "h": int64(time.Hour), "d": int64(Day), "w": int64(Week),
}

// ParseDuration reads a duration that is not negative: one or more numbers with
// a unit (ns, us, ms, s, m, h, d, w), for example "90s", "1h30m" or "7d". "0"
// needs no unit.
func ParseDuration(s string) (time.Duration, error) {
	total, ok := sum(s, durations, maxText)
	if !ok {
		return 0, fmt.Errorf(`%s is not a duration: want a number with a unit, like "90s", "12h" or "7d"`, excerpt.Quoted(s))
	}
	n, err := whole(total)
	if err != nil {
		return 0, fmt.Errorf("duration %q is too long", s)
	}
	return time.Duration(n), nil
}

// DurationOf converts a JSON number of the named unit to a duration. The number
// may have a fraction.
func DurationOf(number, unit string) (time.Duration, error) {
	n, err := times(number, durations[unit])
	return time.Duration(n), err
}

// FormatDuration writes d the way ParseDuration reads it, without the zero
// parts that time.Duration.String adds: "12h", "1m30s", "7d".
func FormatDuration(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	if d%Day == 0 {
		return strconv.FormatInt(int64(d/Day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
