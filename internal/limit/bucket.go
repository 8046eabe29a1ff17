package limit

import (
	"math"
	"time"
)

// longestWait bounds the advice of a bucket in deep debt.
const longestWait = time.Hour

// bucket is a token bucket that may go into debt. The zero value has no limit.
type bucket struct {
	rate   float64 // tokens a second; 0 is no limit
	burst  float64 // the most tokens that it holds, at least 1
	tokens float64 // at the time at; negative is debt
	at     time.Time
}

// configure changes the rate, and the burst to what it gives in so many
// seconds. A bucket without a limit before begins full.
func (b *bucket) configure(rate, seconds float64, now time.Time) {
	if rate == 0 {
		*b = bucket{}
		return
	}
	fresh := b.rate == 0
	b.fill(now)
	b.rate, b.burst = rate, max(1, rate*seconds)
	if fresh {
		b.tokens, b.at = b.burst, now
	}
	b.tokens = min(b.tokens, b.burst)
}

// wait returns how long it is until a request is admitted, 0 for at once.
func (b *bucket) wait(now time.Time) time.Duration {
	b.fill(now)
	if b.rate == 0 || b.tokens >= 1 {
		return 0
	}
	nanoseconds := math.Ceil((1 - b.tokens) / b.rate * float64(time.Second))
	return time.Duration(max(1, min(nanoseconds, float64(longestWait))))
}

// take takes n tokens, which may leave the bucket in debt.
func (b *bucket) take(n float64) {
	if b.rate > 0 {
		b.tokens -= n
	}
}

// fill adds what came since the last time. A clock that went back adds nothing.
func (b *bucket) fill(now time.Time) {
	elapsed := now.Sub(b.at)
	if b.rate == 0 || elapsed <= 0 {
		return
	}
	b.tokens = min(b.burst, b.tokens+elapsed.Seconds()*b.rate)
	b.at = now
}
