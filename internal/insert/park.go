package insert

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// Codes of parked rows that no ClickHouse refused.
const (
	codeNotServed = "tenant.not_served"
	codeNoPool    = "clickhouse.no_pool"
	codeNotRead   = "row.not_rendered"
)

// parkCode is the code of a dead letter: ClickHouse's own as text, or ours.
func parkCode(err error) string {
	if code := exceptionCode(err); code != 0 {
		return strconv.Itoa(code)
	}
	switch {
	case errors.Is(err, errNotServed):
		return codeNotServed
	case clickhouse.Classify(err) == clickhouse.ClassNoPool:
		return codeNoPool
	}
	return codeNotRead
}

// parkJob makes a dead letter of each row. The letters are stored, and the
// rows counted as settled, by storeLetters.
func (f *flight) parkJob(j job, err error) {
	if errors.Is(err, errNotServed) && j.wholeChunks() {
		f.parkUnserved(j)
		return
	}
	for _, s := range f.pair(j).spans {
		for row := s.from; row < s.to; row++ {
			f.letters = append(f.letters, f.letter(s.c, row, s.c.slice(row, row+1), err.Error(), parkCode(err)))
		}
		f.lettered = append(f.lettered, s)
	}
}

// parkUnserved parks rows whose tenant is gone without pushing out other dead
// letters. Those that cannot be parked stay in the queue, which keeps all of them
// until the tenant is back or there is room; no batch of theirs is held meanwhile.
func (f *flight) parkUnserved(j job) {
	j = f.pair(j)
	letters := make([]mq.DeadLetter, 0, j.rows())
	for _, s := range j.spans {
		for row := s.from; row < s.to; row++ {
			l := f.letter(s.c, row, s.c.slice(row, row+1), errNotServed.Error(), codeNotServed)
			l.KeepOlder = true
			letters = append(letters, l)
		}
	}
	if len(letters) == 0 {
		return
	}
	if err := f.w.o.Broker.Park(f.w.work, letters...); err != nil {
		f.w.o.Logger.Error("cannot park the rows of a tenant that is not served; they stay in the queue",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "rows", len(letters), "retry_in", unparkedRetry.String(), "error", err)
		chunks := make([]*chunk, len(j.spans))
		for i, s := range j.spans {
			chunks[i] = s.c
		}
		f.w.handBackAll(f.b, chunks, unparkedRetry)
		return
	}
	for range letters {
		f.w.metrics.parked(f.b.topic, codeNotServed)
	}
	f.w.o.Logger.Warn("parked the rows of a tenant that is not served",
		"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "rows", len(letters))
	f.tell(letters)
	f.done(j.spans)
}

// parkBroken makes one dead letter of a chunk whose rows cannot be told apart.
func (f *flight) parkBroken(s span, err error) {
	if !f.park && f.w.o.Settings(f.b.topic.Tenant, f.b.topic.Table).Served {
		f.w.drop(f.b.topic, err)
		f.done([]span{s})
		return
	}
	l := f.letter(s.c, 0, s.c.body, err.Error(), codeUnreadable)
	l.Version, l.Rows = "", 0
	f.letters = append(f.letters, l)
	f.lettered = append(f.lettered, s)
}

func (f *flight) letter(c *chunk, row int, body []byte, reason, code string) mq.DeadLetter {
	return mq.DeadLetter{
		Topic: c.topic,
		Header: mq.Header{
			Version: mq.Version, Format: c.shape.format, Columns: c.shape.columns, Rows: 1,
			Received: c.received, TraceParent: c.trace,
		},
		Row: bytes.Clone(body), Error: reason, Code: code, At: f.w.o.Now(),
		Source: c.key.pos, SourceRow: row,
	}
}

// storeLetters parks what has gathered and only then counts the rows as
// settled. It waits for a dead-letter store that fails; false when the worker
// stops before it is back: the rows are then still in the queue.
func (f *flight) storeLetters() bool {
	for failed := false; len(f.letters) > 0; failed = true {
		err := f.w.o.Broker.Park(f.w.work, f.letters...)
		if err == nil {
			if failed {
				f.b.waits.succeed()
			}
			break
		}
		wait := f.b.waits.fail(err.Error())
		f.w.o.Logger.Error("cannot park refused rows; they stay in the queue",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "rows", len(f.letters), "retry_in", wait.String(), "error", err)
		if f.b.waits.enter(f.w.stopping, nil) == passStop {
			return false
		}
	}
	if len(f.letters) == 0 {
		return true
	}
	for _, l := range f.letters {
		f.w.metrics.parked(l.Topic, l.Code)
	}
	f.w.o.Logger.Warn("parked rows that could not be written", "tenant", f.b.topic.Tenant, "table", f.b.topic.Table,
		"rows", len(f.letters), "code", f.letters[0].Code, "error", f.letters[0].Error)
	f.tell(f.letters)
	settled := f.lettered
	f.letters, f.lettered = nil, nil
	f.done(settled)
	return true
}

// maxToldMessage bounds what is told of a row's error, in bytes.
const maxToldMessage = 512

// tell counts rows that became dead letters, and says which they are.
func (f *flight) tell(letters []mq.DeadLetter) {
	f.parked += len(letters)
	parked := make([]notice.ParkedRow, len(letters))
	for i := range letters {
		l := &letters[i]
		parked[i] = notice.ParkedRow{Chunk: l.Source, Row: l.SourceRow, Code: l.Code, Message: excerpt.Cut(l.Error, maxToldMessage)}
		if l.Version == "" {
			parked[i].Row = -1
		}
	}
	f.w.o.Tell(notice.Written{Topic: f.b.topic, Parked: parked})
}

// unparkedRetry is when a message that could not be parked comes again.
const unparkedRetry = 10 * time.Second

// parkUnreadable parks a message that is not a chunk, as it came. Where
// nothing may be parked it is dropped: no retry can ever help it.
func (w *Worker) parkUnreadable(d mq.Delivery, reason error) {
	m := d.Chunk()
	if s := w.o.Settings(m.Tenant, m.Table); s.Served && !s.Park {
		w.drop(m.Topic, reason)
		w.ackOne(d)
		return
	}
	header := m.Header
	header.Version, header.Rows = "", 0
	err := w.o.Broker.Park(w.work, mq.DeadLetter{
		Topic: m.Topic, Header: header, Row: m.Body, Error: reason.Error(), Code: codeUnreadable,
		At: w.o.Now(), Source: d.Position(),
	})
	if err != nil {
		w.o.Logger.Error("cannot park a message that cannot be read; it stays in the queue",
			"tenant", m.Tenant, "table", m.Table, "reason", reason, "error", err)
		w.nak(d, unparkedRetry)
		return
	}
	w.metrics.parked(m.Topic, codeUnreadable)
	w.mu.Lock()
	w.totals.parked++
	w.mu.Unlock()
	w.o.Logger.Error("parked a message that cannot be read", "tenant", m.Tenant, "table", m.Table, "reason", reason)
	w.ackOne(d)
}

func (w *Worker) ackOne(d mq.Delivery) {
	if err := w.consumption.Ack(d); err != nil {
		w.o.Logger.Error("cannot acknowledge a message; it will come again", "tenant", d.Chunk().Tenant, "error", err)
	}
}

func (w *Worker) drop(t mq.Topic, reason error) {
	w.metrics.dropped(t)
	w.o.Logger.Error("dropped a message that cannot be read, since nothing may be parked",
		"tenant", t.Tenant, "table", t.Table, "reason", reason)
}
