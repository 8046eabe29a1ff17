package limit

import "time"

const (
	// windowSpan is how long what was read counts, and windowSlots into how many
	// parts it is counted: a part leaves as a whole.
	windowSpan  = time.Hour
	windowSlots = 60
	slotSpan    = windowSpan / windowSlots
)

// window is a budget of what may be read in any hour, give or take a minute. The
// zero value has no limit.
type window struct {
	limit int64 // 0 is no limit
	slots [windowSlots]slot
	sum   int64
}

// slot is what was read in the minute that at counts since 1970.
type slot struct{ at, read int64 }

// slot is where the minute at is counted.
func (w *window) slot(at int64) *slot { return &w.slots[uint64(at)%windowSlots] }

// minute numbers the parts of time.
func minute(now time.Time) int64 { return now.Unix() / int64(slotSpan/time.Second) }

// configure changes the budget, and keeps what was read while there was one.
func (w *window) configure(limit int64) {
	if limit == 0 {
		*w = window{}
	}
	w.limit = limit
}

// forget drops what counts no more. Of a clock that went back nothing is dropped
// before its time.
func (w *window) forget(now time.Time) {
	for i := range w.slots {
		if s := &w.slots[i]; s.read != 0 && s.at <= minute(now)-windowSlots {
			w.sum -= s.read
			*s = slot{}
		}
	}
}

// take counts what was read.
func (w *window) take(read int64, now time.Time) {
	if w.limit == 0 || read <= 0 {
		return
	}
	w.forget(now)
	at := minute(now)
	s := w.slot(at)
	if s.at > at {
		at = s.at // the clock went back: it counts for longer
	}
	s.at = at
	s.read += read
	w.sum += read
}

// wait is how long until something may be read again; zero is now.
func (w *window) wait(now time.Time) time.Duration {
	if w.limit == 0 {
		return 0
	}
	w.forget(now)
	left := w.sum
	for at := minute(now) - windowSlots + 1; left >= w.limit; at++ {
		s := w.slot(at)
		if s.at != at {
			if at > minute(now) {
				return windowSpan // all that is left is ahead of the clock
			}
			continue
		}
		left -= s.read
		if left < w.limit {
			return end(at).Sub(now)
		}
	}
	return 0
}

// reset is when nothing of what was read counts any more; zero when nothing does.
func (w *window) reset(now time.Time) (at time.Time) {
	w.forget(now)
	for _, s := range w.slots {
		if s.read != 0 && end(s.at).After(at) {
			at = end(s.at)
		}
	}
	return at
}

// end is when a part leaves.
func end(at int64) time.Time { return time.Unix((at+windowSlots)*int64(slotSpan/time.Second), 0) }
