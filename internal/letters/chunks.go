package letters

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"time"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// groupEvery is how many letters a group has on average.
const groupEvery = 256

// groupLetters cuts a page into the groups that leave the dead letters
// together. Where a group ends is the letter's own, so that a replay that is
// begun again after a crash makes the same groups, and of them the same
// messages, which the queue recognises. With more to come the last group is
// left to the next page, unless it is the only one.
func groupLetters(page []mq.DeadLetter, more bool) [][]mq.DeadLetter {
	var groups [][]mq.DeadLetter
	from := 0
	for at := range page {
		if endsGroup(page[at].ID) {
			groups = append(groups, page[from:at+1])
			from = at + 1
		}
	}
	if from < len(page) && (!more || len(groups) == 0) {
		groups = append(groups, page[from:])
	}
	return groups
}

func endsGroup(id string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32()%groupEvery == 0
}

// replayChunk is rows that go back together.
type replayChunk struct {
	topic    mq.Topic
	set      *record.ColumnSet
	body     []byte
	received time.Time
	trace    string
	letters  []string
}

// replayKey tells chunks of one group apart: rows that arrived in different
// seconds do not share a chunk, which has one time for all of its rows.
type replayKey struct {
	set    *record.ColumnSet
	second int64
}

func (c *replayChunk) fits(row []byte) bool {
	return len(c.letters) < ingest.MaxChunkRows && len(c.body)+len(row) <= ingest.MaxChunkBytes
}

// chunk is the message. Its id is that of its letters, so that the queue drops
// it when it comes again.
func (c *replayChunk) chunk() mq.Chunk {
	h := sha256.New()
	for _, id := range c.letters {
		h.Write([]byte(id))
		h.Write([]byte{0})
	}
	return mq.Chunk{
		Topic: c.topic,
		Header: mq.Header{
			Version: mq.Version, Format: c.set.Format(), Columns: c.set.Header(),
			Rows: len(c.letters), Received: c.received, TraceParent: c.trace,
		},
		ID:   "replay-" + hex.EncodeToString(h.Sum(nil)[:16]),
		Body: c.body,
	}
}

// forms turns letters into rows of the table as it is now.
type forms struct {
	q     *Replay
	known map[formKey]*form
}

type formKey struct{ format, columns string }

// form is what letters of one format and column list are read with.
type form struct {
	// lines is nil for RowBinary.
	lines   *record.Lines
	rebuild *record.Rebuild
	err     error
}

func newForms(q *Replay) *forms { return &forms{q: q, known: map[formKey]*form{}} }

// chunks makes the messages of a group, and says which of its letters stay.
func (f *forms) chunks(letters []mq.DeadLetter) (chunks []replayChunk, failures []ReplayFailure) {
	open := map[replayKey]int{}
	for i := range letters {
		l := &letters[i]
		set, row, err := f.row(l)
		if err != nil {
			failures = append(failures, letterFailure(l.ID, err))
			continue
		}
		key := replayKey{set, l.Received.Unix()}
		at, ok := open[key]
		if !ok || !chunks[at].fits(row) {
			at = len(chunks)
			open[key] = at
			chunks = append(chunks, replayChunk{topic: f.q.Topic, set: set, received: l.Received, trace: l.TraceParent})
		}
		c := &chunks[at]
		c.body = append(c.body, row...)
		c.letters = append(c.letters, l.ID)
		if l.Received.Before(c.received) {
			c.received = l.Received
		}
	}
	return chunks, failures
}

var errLetterUnreadable = errors.New("it never was a row that could be read: discard it, or insert what it holds by hand")

func letterFailure(id string, err error) ReplayFailure {
	if fault, ok := errors.AsType[*record.Error](err); ok {
		return ReplayFailure{ID: id, Code: fault.Code, Column: fault.Column, Message: fault.Error()}
	}
	return ReplayFailure{ID: id, Code: CodeUnreadable, Message: err.Error()}
}

// row returns a letter's row as the table takes it now. The row is valid until
// the next call.
func (f *forms) row(l *mq.DeadLetter) (*record.ColumnSet, []byte, error) {
	if l.Version != mq.Version {
		return nil, nil, errLetterUnreadable
	}
	form := f.of(l)
	if form.err != nil {
		return nil, nil, form.err
	}
	row := l.Row
	if form.lines != nil {
		var err error
		if row, err = form.lines.AppendRows(nil, row, 1); err != nil {
			return nil, nil, err
		}
	}
	return form.rebuild.Row(row)
}

func (f *forms) of(l *mq.DeadLetter) *form {
	key := formKey{l.Format, l.Columns}
	if known := f.known[key]; known != nil {
		return known
	}
	if len(f.known) >= maxForms {
		clear(f.known)
	}
	made := f.newForm(l)
	f.known[key] = made
	return made
}

// maxForms bounds the forms that a replay remembers.
const maxForms = 256

func (f *forms) newForm(l *mq.DeadLetter) *form {
	made := &form{}
	var layout *record.Layout
	switch l.Format {
	case mq.FormatRowBinary:
		layout, made.err = record.ParseLayout(l.Columns, time.UTC)
	case mq.FormatJSONCompactEachRow:
		if made.lines, made.err = record.ParseLines(l.Columns, time.UTC); made.err == nil {
			layout = made.lines.Layout()
		}
	default:
		made.err = errLetterUnreadable
	}
	if made.err == nil {
		made.rebuild = f.q.Table.Record.NewRebuild(layout, record.DecodeOptions{MissingAsZero: f.q.MissingAsZero})
	}
	return made
}
