package app

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is the part of the container's memory that the Go heap may grow
// to before the collector works harder.
const memoryShare = 0.9

// LimitMemory makes the Go runtime respect the container's memory limit,
// unless GOMEMLIMIT is set already. It returns the limit in bytes, 0 when
// there is none.
func LimitMemory(cgroupFile string) int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		return 0
	}
	text, err := os.ReadFile(cgroupFile)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 || limit == math.MaxInt64 {
		return 0
	}
	limit = int64(float64(limit) * memoryShare)
	debug.SetMemoryLimit(limit)
	return limit
}
