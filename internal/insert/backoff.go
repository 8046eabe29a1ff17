package insert

import (
	"math/rand/v2"
	"sync"
	"time"
)

// backoff spaces the attempts on something that fails: after each failure a
// window in which nothing is tried, then one probe. Its waits are drawn at
// random below a bound that doubles with each failure (full jitter).
type backoff struct {
	min, max time.Duration

	mu       sync.Mutex
	failures int
	until    time.Time
	probing  bool
	changed  chan struct{} // closed when waiters should look again
}

func newBackoff(shortest, longest time.Duration) *backoff {
	return &backoff{min: shortest, max: longest, changed: make(chan struct{})}
}

// pass says how a wait ended.
type pass uint8

const (
	passed     pass = iota // go on, and report how it went
	passStop               // the worker stops
	passGiveUp             // the rows are wanted back
)

// enter waits until an attempt may be made. In a stop it waits for nothing:
// what is known to fail is not tried again. Whoever is passed must report.
func (b *backoff) enter(stop, giveUp <-chan struct{}) pass {
	for {
		wait, changed, ok := b.look()
		if ok {
			return passed
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-stop:
			timer.Stop()
			return passStop
		case <-giveUp:
			timer.Stop()
			return passGiveUp
		}
		timer.Stop()
	}
}

// look passes the caller or says what to wait for. While a probe is out its
// end is what counts.
func (b *backoff) look() (wait time.Duration, changed <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait = time.Until(b.until)
	switch {
	case b.failures == 0:
		return 0, nil, true
	case b.probing:
		return max(wait, b.max), b.changed, false
	case wait <= 0:
		b.probing = true
		return 0, nil, true
	}
	return wait, b.changed, false
}

// succeed ends the backoff: all who wait go on.
func (b *backoff) succeed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.probing = 0, false
	b.wake()
}

// fail begins the next window and returns how long it is. Attempts that were
// under way when a window began do not lengthen it.
func (b *backoff) fail() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.failures > 0 && !b.probing && now.Before(b.until) {
		return b.until.Sub(now)
	}
	b.failures++
	b.probing = false
	wait := b.draw()
	b.until = now.Add(wait)
	b.wake()
	return wait
}

// draw picks the next window between min and max.
func (b *backoff) draw() time.Duration {
	bound := b.max
	if n := b.failures - 1; n < 20 {
		bound = min(b.max, b.min<<n)
	}
	return max(b.min, time.Duration(rand.Int64N(int64(bound)+1)))
}

// release withdraws a probe that says nothing about what is waited for.
func (b *backoff) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing {
		b.probing = false
		b.wake()
	}
}

func (b *backoff) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// waiting reports whether a backoff is running, and how long its window still is.
func (b *backoff) waiting() (left time.Duration, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, time.Until(b.until)), b.failures > 0
}
