package natskv

import "time"

// Instant is a moment by both clocks of a process.
type Instant struct {
	// Mono counts from some start and never jumps, but may stand still while a
	// virtual machine is.
	Mono time.Duration
	// Wall goes on then, and jumps when it is set.
	Wall time.Time
}

// Clock is a process's time.
type Clock interface {
	Now() Instant
	After(d time.Duration) <-chan time.Time
}

// since is the longest that may have passed from then to now, by either clock.
func (now Instant) since(then Instant) time.Duration {
	return max(now.Mono-then.Mono, now.Wall.Sub(then.Wall))
}

// systemClock is the Clock of the machine.
type systemClock struct{ start time.Time }

func (c systemClock) Now() Instant {
	return Instant{Mono: monotonic(c.start), Wall: time.Now().Round(0)} // without Go's monotonic reading
}

func (c systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
