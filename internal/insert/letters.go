package insert

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/record"
)

const (
	// maxLetters is how many rows are parked at a time.
	maxLetters = 1000
	// unparkedRetry is when rows that could not be parked come again, unless the
	// longest backoff is shorter.
	unparkedRetry = 10 * time.Second
	// maxToldMessage bounds what is told of a row's error, in bytes.
	maxToldMessage = 512
)

// Codes of parked rows that no ClickHouse refused.
const (
	codeNotServed  = "tenant.not_served"
	codeNoPool     = "clickhouse.no_pool"
	codeNotRead    = "row.not_rendered"
	codeUnreadable = "chunk.unreadable"
)

// parkCode is the code of a dead letter: ClickHouse's own as text, or ours.
func parkCode(err error) string {
	if code := exceptionCode(err); code != 0 {
		return strconv.Itoa(code)
	}
	if fault, ok := errors.AsType[*record.Error](err); ok {
		return fault.Code
	}
	switch {
	case errors.Is(err, errNotServed):
		return codeNotServed
	case clickhouse.Classify(err) == clickhouse.ClassNoPool:
		return codeNoPool
	}
	return codeNotRead
}

// park makes a dead letter of each row. The letters are stored, and the rows
// counted as settled, by storeLetters; those of a tenant that is gone at once.
func (f *batch) park(i insertion, err error) {
	letters := make([]mq.DeadLetter, 0, i.rows())
	for _, s := range i.spans {
		for row := s.from; row < s.to; row++ {
			letters = append(letters, f.letter(s.c, row, s.c.Slice(row, row+1), err.Error(), parkCode(err)))
		}
	}
	if errors.Is(err, errNotServed) && i.unsettled() {
		f.parkUnserved(i, letters)
		return
	}
	f.letters = append(f.letters, letters...)
	f.lettered = append(f.lettered, i.spans...)
}

// parkUnserved parks rows whose tenant is gone without pushing out other dead
// letters. Those that cannot be parked stay in the queue, which keeps all of them
// until the tenant is back or there is room; no batch of theirs is held meanwhile.
func (f *batch) parkUnserved(i insertion, letters []mq.DeadLetter) {
	if len(letters) == 0 {
		return
	}
	if err := f.w.o.Broker.Park(f.w.work, letters...); err != nil {
		retry := min(unparkedRetry, f.w.o.BackoffMax)
		f.w.o.Logger.Error("cannot park the rows of a tenant that is not served; they stay in the queue",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "rows", len(letters), "retry_in", retry.String(), "error", err)
		f.w.handBack(f.b, retry, i.chunks()...)
		return
	}
	f.parkedRows(letters, i.spans)
}

// parkUnreadable makes one dead letter of a chunk whose rows cannot be told
// apart. Where nothing may be parked it is dropped: no retry can ever help it.
func (f *batch) parkUnreadable(s span, err error) {
	if f.settings.Served && !f.settings.Park {
		f.w.metrics.dropped(f.b.topic)
		f.w.o.Logger.Error("dropped a message that cannot be read, since nothing may be parked",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "reason", err)
		f.done([]span{s})
		return
	}
	l := f.letter(s.c, 0, s.c.Body, err.Error(), codeUnreadable)
	l.Version, l.Rows = "", 0
	f.letters = append(f.letters, l)
	f.lettered = append(f.lettered, s)
}

func (f *batch) letter(c *held, row int, body []byte, reason, code string) mq.DeadLetter {
	l := mq.DeadLetter{
		Topic: c.topic, Header: c.header, Row: bytes.Clone(body), Error: reason, Code: code, At: f.w.o.Now(),
		Source: c.pos, SourceRow: row,
		// Rows that wait in the queue are safe; those that full dead letters
		// would push out are not.
		KeepOlder: true,
	}
	l.Rows = 1
	return l
}

// dropLetters drops those of chunks that stay in the queue: they come again as a
// whole, and a row that was parked would be parked twice.
func (f *batch) dropLetters() {
	ready := make(map[mq.Position]int)
	for _, s := range f.lettered {
		ready[s.c.pos] += s.rows()
	}
	stays := make(map[mq.Position]bool)
	f.lettered = slices.DeleteFunc(f.lettered, func(s span) bool {
		stays[s.c.pos] = ready[s.c.pos] < s.c.left
		return stays[s.c.pos]
	})
	f.letters = slices.DeleteFunc(f.letters, func(l mq.DeadLetter) bool { return stays[l.Source] })
}

// storeLetters parks what has gathered and only then counts the rows as
// settled. It waits for a dead-letter store that fails; false when the worker
// stops before it is back: the rows are then still in the queue.
func (f *batch) storeLetters() bool {
	if len(f.letters) == 0 {
		return true
	}
	for failed := false; ; failed = true {
		err := f.w.o.Broker.Park(f.w.work, f.letters...)
		if err == nil {
			if failed {
				f.b.waits.succeed()
			}
			break
		}
		wait := f.b.waits.fail()
		f.w.o.Logger.Error("cannot park refused rows; they stay in the queue",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "rows", len(f.letters), "retry_in", wait.String(), "error", err)
		if f.b.waits.enter(f.b.stopped, nil) == passStop {
			return false
		}
	}
	letters, rows := f.letters, f.lettered
	f.letters, f.lettered = nil, nil
	f.parkedRows(letters, rows)
	return true
}

// parkedRows counts rows whose letters are stored as settled, and says which
// they are.
func (f *batch) parkedRows(letters []mq.DeadLetter, rows []span) {
	f.w.count(0, len(letters))
	told := make([]notice.ParkedRow, len(letters))
	for n := range letters {
		l := &letters[n]
		f.w.metrics.parked(l.Topic, l.Code)
		told[n] = notice.ParkedRow{Chunk: l.Source, Row: l.SourceRow, Code: l.Code, Message: excerpt.Cut(l.Error, maxToldMessage)}
		if l.Version == "" {
			told[n].Row = -1
		}
	}
	f.w.o.Logger.Warn("parked rows that could not be written", "tenant", f.b.topic.Tenant, "table", f.b.topic.Table,
		"rows", len(letters), "code", letters[0].Code, "error", letters[0].Error)
	f.w.o.Tell(notice.Written{Topic: f.b.topic, Parked: told})
	f.done(rows)
}
