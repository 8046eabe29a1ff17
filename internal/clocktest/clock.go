// Package clocktest is the time of tests: it passes when it is told to.
package clocktest

import (
	"sync"
	"time"
)

// Clock is a time that stands still. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// At is a clock that shows now.
func At(now time.Time) *Clock { return &Clock{now: now} }

// Now is what it shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
