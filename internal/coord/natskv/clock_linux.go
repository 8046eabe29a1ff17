package natskv

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic goes on while the machine is suspended, which Go's own does not.
func monotonic(time.Time) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("no clock: " + err.Error()) // every kernel since 2.6.39 has it
	}
	return time.Duration(now.Nano())
}
