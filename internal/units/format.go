package units

import (
	"strconv"
	"strings"
	"time"
)

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
