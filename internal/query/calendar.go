package query

import (
	"math"
	"slices"
	"sort"
	"time"
)

// The times that buckets are computed for, the years 1899 to 2300, in seconds
// since 1970: more than any column holds.
const (
	firstTime = -2240524800
	lastTime  = 10445328000
)

// maxInstants is the longest bucket, in seconds, that ends where clocks are set:
// an hour that they show twice is two hours.
const maxInstants = 60 * 60

// calendar is when the buckets of one length begin in one zone, in seconds
// since 1970. Each lasts until the next begins.
//
// A bucket of more than an hour begins when clocks first show its local time, or
// pass it. One of up to an hour also ends whenever clocks are set.
type calendar struct {
	clocks clocks
	length int64   // of buckets by the clock
	runs   []run   // of buckets by the clock
	starts []int64 // of buckets by months
}

// run is a row of buckets: one begins at from, and those that follow up to last
// do at the multiples of the length, less phase. base counts the buckets before
// from.
type run struct{ from, phase, last, base int64 }

// newCalendar is right for the times from one to another, and knows how the
// clocks were set in some more.
func newCalendar(e every, zone *time.Location, from, until int64) *calendar {
	from, until = max(from, firstTime), min(until, lastTime)
	if e.months > 0 {
		from -= e.months * 31 * daySeconds
		until += e.months * 31 * daySeconds
	}
	from, until = from-e.seconds-2*zoneReach, until+e.seconds+2*zoneReach
	c := &calendar{clocks: clocksOf(zone, from, until), length: e.seconds}
	if e.months > 0 {
		c.months(e.months, from, until)
		return c
	}
	anchor := int64(0)
	if e.weeks() {
		anchor = firstMonday
	}
	c.byTheClock(anchor)
	return c
}

// months lists the buckets that begin between two times. They are counted from
// January 1970.
func (c *calendar) months(every, from, until int64) {
	first := time.Unix(from, 0).UTC()
	month := int64(first.Year()-1970)*12 + int64(first.Month()-1)
	f := firsts{clocks: c.clocks}
	for month -= modulo(month, every); ; month += every {
		at := f.of(time.Date(1970, time.January+time.Month(month), 1, 0, 0, 0, 0, time.UTC).Unix())
		c.starts = append(c.starts, at)
		if at >= until {
			return
		}
	}
}

// byTheClock lists the runs of buckets whose local times are a whole number of
// lengths from anchor.
func (c *calendar) byTheClock(anchor int64) {
	var shown int64 // the local time up to which clocks have shown all
	for i, s := range c.clocks {
		until := int64(math.MaxInt64) / 2 // when clocks are set again
		if i+1 < len(c.clocks) {
			until = c.clocks[i+1].from
		}
		phase := modulo(s.offset-anchor, c.length)
		switch next := shown + modulo(anchor-shown, c.length); {
		case i == 0:
			c.add(run{from: s.from - modulo(s.from+phase, c.length), phase: phase, last: until - 1})
			shown = until + s.offset
		case c.length <= maxInstants:
			c.add(run{from: s.from, phase: phase, last: until - 1})
		case next < until+s.offset: // else no bucket begins before clocks are set again
			c.add(run{from: max(next-s.offset, s.from), phase: phase, last: until - 1})
		}
		shown = max(shown, until+s.offset)
	}
}

// add adds a run, unless it only goes on with the one before.
func (c *calendar) add(r run) {
	if n := len(c.runs); n > 0 {
		before := &c.runs[n-1]
		if before.phase == r.phase && before.last+1 == r.from && modulo(r.from+r.phase, c.length) == 0 {
			before.last = r.last
			return
		}
		r.base = c.index(c.start(r.from-1)) + 1
	}
	c.runs = append(c.runs, r)
}

// start is the beginning of the bucket that t is in.
func (c *calendar) start(t int64) int64 {
	if c.length == 0 {
		return c.starts[max(sort.Search(len(c.starts), func(i int) bool { return c.starts[i] > t })-1, 0)]
	}
	r := c.runs[max(sort.Search(len(c.runs), func(i int) bool { return c.runs[i].from > t })-1, 0)]
	t = min(t, r.last)
	return max(r.from, t-modulo(t+r.phase, c.length))
}

// index counts the buckets from the calendar's first to the one that begins at
// start.
func (c *calendar) index(start int64) int64 {
	if c.length == 0 {
		i, _ := slices.BinarySearch(c.starts, start)
		return int64(i)
	}
	r := c.runs[max(sort.Search(len(c.runs), func(i int) bool { return c.runs[i].from > start })-1, 0)]
	return r.base + (start-r.from+c.length-1)/c.length
}

// nth is the beginning of the bucket with an index.
func (c *calendar) nth(index int64) int64 {
	if c.length == 0 {
		return c.starts[index]
	}
	r := c.runs[max(sort.Search(len(c.runs), func(i int) bool { return c.runs[i].base > index })-1, 0)]
	return max(r.from, r.from-modulo(r.from+r.phase, c.length)+(index-r.base)*c.length)
}
