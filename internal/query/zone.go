package query

import (
	"math"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// maxZoneLen bounds the name of a time zone; the longest there is has 32 bytes.
const maxZoneLen = 64

// loadZone finds a time zone by its IANA name; "" is UTC. ClickHouse is never
// told the name: what the zone means is read here alone, so that every bucket,
// bound and empty bucket of an answer is of the same edition of the zones.
func loadZone(clause, name string) (*time.Location, *Error) {
	if name == "" {
		return time.UTC, nil
	}
	// "Local" is whatever this process has, and "right/…" counts leap seconds.
	if len(name) > maxZoneLen || name == "Local" || strings.HasPrefix(name, "right/") {
		return nil, unknownZone(clause, name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknownZone(clause, name)
	}
	return zone, nil
}

func unknownZone(clause, name string) *Error {
	return invalid(`%s: %q is not a time zone that is known here: want an IANA name such as "Europe/Berlin" or "UTC"`, clause, excerpt.Of(name))
}

// shift is a time from which on the clocks of a zone are ahead of UTC by
// offset, both in seconds.
type shift struct{ from, offset int64 }

// clocks are how the clocks of a zone were set, in order. The first shift holds
// for all time before the second.
type clocks []shift

// clocksOf lists how the clocks of a zone are set between two times, in
// seconds since 1970.
func clocksOf(zone *time.Location, from, until int64) clocks {
	offset, _ := offsetOf(zone, from)
	list := clocks{{from: from, offset: offset}}
	for at := from; ; {
		_, next := offsetOf(zone, at)
		if next >= until {
			return list
		}
		if offset, _ := offsetOf(zone, next); offset != list[len(list)-1].offset {
			list = append(list, shift{from: next, offset: offset})
		}
		at = next
	}
}

// offsetOf is how far clocks are ahead of UTC at a time, and until when they are
// at least.
func offsetOf(zone *time.Location, at int64) (offset, until int64) {
	t := time.Unix(at, 0).In(zone)
	_, seconds := t.Zone()
	_, end := t.ZoneBounds()
	switch {
	case end.IsZero():
		return int64(seconds), math.MaxInt64
	case end.Unix() <= at:
		// What the library says of the last day of a leap year to come, on
		// which no rule sets clocks.
		return int64(seconds), at + daySeconds
	}
	return int64(seconds), end.Unix()
}

// firsts finds when clocks first show a local time, or pass it where they are
// set forward over it. A local time is a number of seconds, as if it were one
// of UTC; those that are asked for ascend.
type firsts struct {
	clocks clocks
	at     int
}

func (f *firsts) of(local int64) int64 {
	for f.at+1 < len(f.clocks) && local >= f.clocks[f.at+1].from+f.clocks[f.at].offset {
		f.at++
	}
	at := local - f.clocks[f.at].offset
	if f.at == 0 {
		return at
	}
	return max(at, f.clocks[f.at].from)
}

// daySeconds is a day by the clock: those on which clocks are set are longer or
// shorter.
const daySeconds = 24 * 60 * 60

// zoneReach is more than any zone is from UTC or sets its clocks by, in seconds.
const zoneReach = 2 * daySeconds

// startOfDay is when a day of a zone begins: at its midnight, or at the first
// moment of it where clocks are set forward over midnight. Days beyond the
// month's are those of the next.
func startOfDay(zone *time.Location, year int, month time.Month, day int) time.Time {
	return firstTimeOf(zone, time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix())
}

// firstTimeOf is when the clocks of a zone first show a local time, or pass it.
func firstTimeOf(zone *time.Location, local int64) time.Time {
	f := firsts{clocks: clocksOf(zone, local-zoneReach, local+zoneReach)}
	return time.Unix(f.of(local), 0).In(zone)
}

// midnight is a day from which on days begin before seconds after their own
// midnight of UTC, both counted since 1970.
type midnight struct{ day, before int64 }

// midnights lists when the days of the zone begin.
func (c clocks) midnights() []midnight {
	f := firsts{clocks: c}
	var list []midnight
	last := int64(-1 << 40)
	for i, s := range c {
		behind := s.offset
		if i > 0 {
			behind = min(behind, c[i-1].offset)
		}
		// Around a shift, each day may begin in its own way.
		first := floorDiv(s.from+behind, daySeconds) - 1
		for day := max(first, last+1); day < first+4; day++ {
			before := day*daySeconds - f.of(day*daySeconds)
			if last = day; len(list) == 0 || list[len(list)-1].before != before {
				list = append(list, midnight{day: day, before: before})
			}
		}
	}
	return list
}

func floorDiv(n, m int64) int64 { return (n - modulo(n, m)) / m }
