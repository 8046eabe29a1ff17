package dynamo

import (
	"sync/atomic"
	"time"
)

const (
	// margin is how much longer than its lease others leave a reservation alone,
	// because clocks differ.
	margin = 5 * time.Second
	// tolerated is how far this machine's clock may be off before DynamoDB's is
	// believed: what its answers say is a second coarse, and as late as they are.
	tolerated = 2 * time.Second
)

// clock is by what reservations end. All processes follow DynamoDB's own, so that
// one whose clock is wrong neither takes what others hold nor forgets early.
type clock struct {
	own func() time.Time
	// follow is false for a clock that tests move.
	follow bool
	// offset is how much later it is at DynamoDB, in nanoseconds.
	offset atomic.Int64
}

func (c *clock) now() time.Time { return c.own().Add(time.Duration(c.offset.Load())) }

// observe notes the date of an answer, which was cut to seconds.
func (c *clock) observe(date time.Time) {
	if !c.follow {
		return
	}
	off := date.Add(time.Second / 2).Sub(c.own())
	if off.Abs() <= tolerated {
		off = 0
	}
	c.offset.Store(int64(off))
}
