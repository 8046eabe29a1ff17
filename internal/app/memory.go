package app

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/config"
)

// memoryShare is the part of the memory limit that the Go heap may grow to before
// the collector works harder.
const memoryShare = 0.9

// spareHeap is how much garbage a process may keep however little it holds, in
// bytes.
const spareHeap = 64 << 20

// SpareHeap returns memory that counts as heap, is never touched and so takes
// no room, for as long as the caller keeps it. The collector runs when the heap
// has doubled; over the small heap of this process that is many times a second,
// beside the requests. limit is the memory limit, 0 for none, of which it is a
// sixteenth at most. With GOGC set there is none: whoever set it knows better.
func SpareHeap(limit int64) []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	size := int64(spareHeap)
	if limit > 0 {
		size = min(size, limit/16)
	}
	return make([]byte, size)
}

// LimitMemory makes the Go runtime respect a memory limit in bytes, unless it is 0
// or GOMEMLIMIT is set already.
func LimitMemory(limit int64) {
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(float64(limit) * memoryShare))
	}
}

// startLasts bounds how long the garbage of the start is waited for, and startLook is
// how often it is asked whether the start is over.
const startLasts, startLook = time.Minute, time.Second

// onceStarted calls do when nothing is pending any more, after startLasts at the
// latest, and never when ctx ends before.
func onceStarted(ctx context.Context, pending func() bool, do func()) {
	look := time.NewTicker(startLook)
	defer look.Stop()
	for range startLasts / startLook {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if !pending() {
			break
		}
	}
	do()
}

// Where a control group has its limit, beneath the root: of version 2, and of
// version 1.
const (
	groups2, limit2 = "sys/fs/cgroup", "memory.max"
	groups1, limit1 = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
)

// noLimit is beyond every limit that is one: version 1 has no word for none.
const noLimit = 1 << 60

// ContainerMemory is the least memory limit of the control groups that the process
// is in, in bytes, 0 when there is none. root is "/", but for tests.
func ContainerMemory(root string) int64 {
	// Without a namespace of its own the process sees its group's path from the
	// top, and with one perhaps not at all: what exists of it counts.
	least := int64(noLimit)
	own, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range bytes.Lines(append(own, "0::/\n0:memory:/\n"...)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		groups, file := groups2, limit2
		if controllers != "" {
			groups, file = groups1, limit1
		}
		if controllers != "" && !strings.Contains(","+controllers+",", ",memory,") {
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			least = min(least, readLimit(filepath.Join(root, groups, group, file)))
			if group == "/" {
				break
			}
		}
	}
	if least >= noLimit {
		return 0
	}
	return least
}

// readLimit reads a limit, noLimit when there is none.
func readLimit(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return noLimit
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 {
		return noLimit
	}
	return limit
}

// shares are what the parts of the process may take of its memory, in bytes.
type shares struct {
	// answers that are made and sent, and request bodies.
	answers, bodies int64
	// waiting is for rows that wait for the queue, batches for those on the way to
	// ClickHouse.
	waiting, batches int64
}

// sharesOf divides a memory limit, 0 for none.
func sharesOf(limit int64, c config.Limits) shares {
	const unlimited = 2 << 30 // what is divided where there is no limit
	if limit <= 0 {
		limit = unlimited
	}
	s := shares{
		answers: limit / 4,
		bodies:  min(limit/8, 256<<20), waiting: min(limit/16, 256<<20), batches: min(limit/8, 256<<20),
	}
	// A body and a batch of full size fit, however little there is.
	s.bodies, s.waiting, s.batches = max(s.bodies, 48<<20), max(s.waiting, 16<<20), max(s.batches, 32<<20)
	if c.Answers > 0 {
		s.answers = c.Answers
	}
	return s
}
