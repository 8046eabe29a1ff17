package insert

import (
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// settle does what a verdict asks for. Rows are settled, written or parked, and
// their chunks acknowledged; or split into parts, which are tried next; or held
// for another time, by the queue or as kept rows.
func (f *batch) settle(i insertion, v verdict, err error) (parts []insertion) {
	switch v {
	case stored:
		f.streak = 0
		f.b.inserts++
		f.w.count(i.rows(), 0)
		f.w.metrics.inserted(f.b.topic, i.rows())
		// Before anything that may take its time: until then answers of before
		// these rows are given out of caches.
		f.w.o.Tell(notice.Written{Topic: f.b.topic, Inserted: i.rows()})
		f.done(i.spans)
	case partly:
		return f.renew(i)
	case tooMuch:
		if i = f.readable(i); len(i.spans) > 0 {
			return i.split(2)
		}
	case refused:
		f.streak++
		return f.narrow(i, err)
	case doubtful:
		return f.doubt(i, err)
	case unserved:
		f.park(f.readable(i), err)
	case unreadable:
		for _, s := range i.spans {
			f.parkUnreadable(s, s.c.unreadable)
		}
	case notNow:
		_, delay := f.w.stuck(f.b)
		f.w.handBack(f.b, delay, i.chunks()...)
	}
	return nil
}

// wideSplit is into how many parts refused rows are split when refusals come
// one after another: many rows are bad then, and halving finds them slowly.
const (
	wideSplit  = 16
	wideStreak = 6
)

// narrow finds what is refused: rows for types that the table no longer has are
// rebuilt, and others brought down to single rows, which are parked or kept.
func (f *batch) narrow(i insertion, err error) (parts []insertion) {
	i = f.readable(i)
	switch {
	case len(i.spans) == 0:
	case typesChanged(err) && f.w.o.Table != nil:
		if parts, changed := f.rebuild(i); changed {
			return parts
		}
		return f.refuse(i, err)
	default:
		return f.refuse(i, err)
	}
	return nil
}

// refuse narrows a refusal down to single rows.
func (f *batch) refuse(i insertion, err error) []insertion {
	switch at, named := rowAtFault(err); {
	case i.rows() > 1 && !sameForEveryRow(err):
		switch {
		case f.streak > wideStreak:
			return i.split(wideSplit)
		case named && at < i.rows():
			return i.around(at)
		}
		return i.split(2)
	case f.settings.Park:
		f.park(i, err)
	default:
		f.keep(i, err)
	}
	return nil
}

// doubt looks for the rows that fail alone, with a code that no list names. As
// long as nothing else of the table passes they are not to blame. One that fails
// while others pass is parked; until that is known it is kept, and others go on.
func (f *batch) doubt(i insertion, err error) (parts []insertion) {
	i = f.readable(i)
	switch {
	case len(i.spans) == 0:
	case i.rows() > 1:
		i.doubts = maxDoubts - 1
		return i.split(2)
	case i.alone && f.b.inserts > i.wrote && f.settings.Park:
		f.park(i, err)
	default:
		i.alone, i.wrote = true, f.b.inserts
		f.keep(i, err)
	}
	return nil
}

// keep puts refused rows aside for the batcher.
func (f *batch) keep(i insertion, err error) {
	f.refusal = err
	if n := len(f.refused); n > 0 && f.refused[n-1].form == i.form && !i.alone && !f.refused[n-1].alone {
		last := &f.refused[n-1]
		last.spans, last.noted = append(last.spans, i.spans...), false
		if i.uncertain && (!last.uncertain || i.since.Before(last.since)) {
			last.since = i.since
		}
		last.uncertain, last.renewed = last.uncertain || i.uncertain, max(last.renewed, i.renewed)
		return
	}
	f.refused = append(f.refused, i)
}

// readable finds the rows of the insertion's chunks; chunks that turn out not to
// hold what their header says are parked as they came. It returns the others.
func (f *batch) readable(i insertion) insertion {
	var found []span
	for _, s := range i.spans {
		if err := s.c.Split(); err != nil {
			f.parkUnreadable(s, err)
			continue
		}
		found = append(found, s)
	}
	return i.of(found...)
}

// done counts rows as settled and acknowledges the chunks that are complete.
func (f *batch) done(spans []span) {
	var complete []*held
	for _, s := range spans {
		if s.c.left -= s.rows(); s.c.left == 0 {
			complete = append(complete, s.c)
		}
	}
	f.noteSettled(spans)
	f.acknowledge(complete)
}

// acknowledge ends chunks all of whose rows are settled, and says so.
func (f *batch) acknowledge(complete []*held) {
	if len(complete) == 0 {
		return
	}
	settled := make([]mq.Position, len(complete))
	for n, c := range complete {
		settled[n] = c.pos
	}
	f.w.ack(f.b, complete)
	f.w.o.Tell(notice.Written{Topic: f.b.topic, Settled: settled})
}

// rowAtFault finds the row that ClickHouse names in its refusal, from 0. It is
// a hint where to look, no more: the row is judged by an INSERT of its own.
func rowAtFault(err error) (int, bool) {
	_, rest, ok := strings.Cut(err.Error(), "at row ")
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.Atoi(rest[:end])
	return n - 1, err == nil && n > 0
}

// codeIncorrectData is the exception of a header whose types are not the
// table's.
const codeIncorrectData = 117

// tableWide are the refusals that hold for every row of an INSERT alike: there
// is nothing to narrow down.
var tableWide = map[int]bool{
	8: true, 10: true, 16: true, 44: true, 47: true, // columns that do not exist, or are computed
	48: true, 60: true, 218: true, // the table takes no INSERT, or is gone
}

func typesChanged(err error) bool { return exceptionCode(err) == codeIncorrectData }

func sameForEveryRow(err error) bool { return tableWide[exceptionCode(err)] }
