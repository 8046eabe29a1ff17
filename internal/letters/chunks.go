package letters

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"time"

	"github.com/wavehouse/wavehouse/internal/chunk"
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

func (c *replayChunk) fits(row []byte, most int) bool {
	return len(c.letters) < chunk.MaxRows && len(c.body)+len(row) <= most
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

// chunks makes the messages of a group, and says which of its letters stay.
func (r *replay) chunks(letters []mq.DeadLetter) (chunks []replayChunk, failures []ReplayFailure) {
	open := map[replayKey]int{}
	for i := range letters {
		l := &letters[i]
		set, row, err := r.row(l)
		if err != nil {
			failures = append(failures, letterFailure(l.ID, err))
			continue
		}
		key := replayKey{set, l.Received.Unix()}
		at, ok := open[key]
		if !ok || !chunks[at].fits(row, chunk.MaxBytes(r.k.o.MaxChunkBytes)) {
			at = len(chunks)
			open[key] = at
			chunks = append(chunks, replayChunk{topic: r.q.Topic, set: set, received: l.Received, trace: l.TraceParent})
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

// maxRebuilds bounds the forms of letters that a replay remembers.
const maxRebuilds = 256

// row returns a letter's row as the table takes it now. The row is valid until
// the next call.
func (r *replay) row(l *mq.DeadLetter) (*record.ColumnSet, []byte, error) {
	form, row, err := r.k.chunks.OpenLetter(l)
	if err != nil {
		return nil, nil, err
	}
	rebuild, known := r.rebuilds.Get(form)
	if !known {
		rebuild = r.q.Table.Record.NewRebuild(form.Layout, record.DecodeOptions{MissingAsZero: r.q.MissingAsZero, CutTimes: r.q.CutTimes})
		r.rebuilds.Put(form, rebuild)
	}
	return rebuild.Row(row)
}

func letterFailure(id string, err error) ReplayFailure {
	if fault, ok := errors.AsType[*record.Error](err); ok {
		return ReplayFailure{ID: id, Code: fault.Code, Column: fault.Column, Message: fault.Error()}
	}
	message := err.Error()
	if _, unknown := errors.AsType[*chunk.FormatError](err); unknown {
		message = "it never was a row that could be read: discard it, or insert what it holds by hand"
	}
	return ReplayFailure{ID: id, Code: CodeUnreadable, Message: message}
}
