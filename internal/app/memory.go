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

// spareHeap is how much garbage a process may keep however little it holds, in
// bytes.
const spareHeap = 64 << 20

// SpareHeap returns memory that counts as heap, is never touched and so takes
// no room, for as long as the caller keeps it. The collector runs when the heap
// has doubled; over the small heap of this process that is many times a second,
// beside the requests. limit is the memory limit, 0 for none, of which it is an
// eighth at most. With GOGC set there is none: whoever set it knows better.
func SpareHeap(limit int64) []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	size := int64(spareHeap)
	if limit > 0 {
		size = min(size, limit/8)
	}
	return make([]byte, size)
}

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
