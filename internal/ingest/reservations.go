package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// IDs says how a table's records are told apart.
type IDs struct {
	// Field is the column that holds a record's id.
	Field string
	// Required refuses a record without one.
	Required bool
	// Retention is how long an id is remembered, 0 for ever.
	Retention time.Duration
	// Defer takes records whose ids cannot be asked for: whoever inserts them does
	// it first.
	Defer bool
}

// reservations are a request's dealings with the store of ids.
type reservations struct {
	owner  dedupe.Owner
	scope  dedupe.Scope
	window window
	// key names the request in the store.
	key string
	// keyed is set while the request holds its own key.
	keyed bool
	// unknown is set when the outcome of a publish is not known.
	unknown bool
}

// window is records with ids that wait to be reserved together: at most
// dedupe.MaxWindow, and hardly more than maxEncodedBytes.
type window struct {
	records []candidate
	rows    []byte
	first   map[string]int
}

// candidate is one record of a window.
type candidate struct {
	index    int
	set      *record.ColumnSet
	from, to int // of its row
	id       string
	// leader is the first record of the window with this id.
	leader int
	// What became of it, once it is settled.
	duplicate bool
	err       *Error
}

func (w *window) add(rec record.Record) {
	id := dedupe.RecordID(rec.Checked, rec.ID)
	at := len(w.records)
	leader, repeated := w.first[id]
	if !repeated {
		leader = at
		if w.first == nil {
			w.first = make(map[string]int)
		}
		w.first[id] = at
	}
	from := len(w.rows)
	w.rows = append(w.rows, rec.Row...)
	w.records = append(w.records, candidate{index: rec.Index, set: rec.Set, from: from, to: len(w.rows), id: id, leader: leader})
}

func (w *window) full() bool {
	return len(w.records) >= dedupe.MaxWindow || len(w.rows) >= maxEncodedBytes
}

func (w *window) reset() {
	w.records, w.rows = w.records[:0], w.rows[:0]
	clear(w.first)
}

// leaders are the records whose ids are asked for.
func (w *window) leaders() []int {
	all := make([]int, 0, len(w.first))
	for at := range w.records {
		if w.records[at].leader == at {
			all = append(all, at)
		}
	}
	return all
}

func (w *window) ids(records []int) []string {
	ids := make([]string, len(records))
	for i, at := range records {
		ids[i] = w.records[at].id
	}
	return ids
}

// settleWindow brings the records of the window to their end: each is reserved,
// published and committed, found to be a duplicate, or failed.
func (s *session) settleWindow(ctx context.Context) {
	w := &s.ids.window
	if len(w.records) == 0 {
		return
	}
	size := int64(len(w.rows) + len(w.records)*rowOverhead)
	switch {
	case s.failure != nil:
	case !s.g.waiting.Take(s.r.Tenant, size):
		s.failure = waitingFullError()
	default:
		defer s.g.waiting.Give(s.r.Tenant, size)
	}
	pending := w.leaders()
	for end := time.Now().Add(s.g.o.InFlightWait); len(pending) > 0 && s.failure == nil; {
		var again time.Duration
		if pending, again = s.reserve(ctx, pending); len(pending) > 0 && s.failure == nil && !pause(ctx, again, end) {
			s.failure = inFlightError(s.g.o.Lease)
		}
	}
	for _, at := range pending {
		w.records[at].err = s.failure
	}
	for i := range w.records {
		s.result.hold(&w.records[i], &w.records[w.records[i].leader], s.r.AllResults)
	}
	w.reset()
}

// reserve asks for the ids of records, publishes those that are new, and returns
// those that another request is at, and in what time to ask for them again.
func (s *session) reserve(ctx context.Context, records []int) (inFlight []int, again time.Duration) {
	w := &s.ids.window
	if s.ended(ctx) != nil {
		return records, 0
	}
	// A caller that leaves does not stop the store: what it did would not be
	// known.
	found, err := s.g.o.Dedupe.Reserve(context.WithoutCancel(ctx), s.ids.scope, s.ids.owner, w.ids(records))
	switch {
	case err != nil && s.r.IDs.Defer && !errors.Is(err, dedupe.ErrFull):
		s.publishDeferred(ctx, records)
		return nil, 0
	case err != nil:
		s.failure = dedupeDownError(err)
		return records, 0
	}
	var mine []int
	for i, at := range records {
		switch found[i].State {
		case dedupe.New:
			mine = append(mine, at)
		case dedupe.Duplicate:
			w.records[at].duplicate = true
		case dedupe.InFlight:
			inFlight = append(inFlight, at)
			again = max(again, found[i].RetryAfter)
		}
	}
	s.publishReserved(ctx, mine)
	return inFlight, again
}

// publishReserved publishes reserved records and settles their reservations: those of
// stored records are committed, those of records that are certainly not stored
// are given up, and the others are left to lapse.
func (s *session) publishReserved(ctx context.Context, records []int) {
	var commit []dedupe.Entry
	var release []string
	s.publishWindow(ctx, records, false, func(p *piece, ids []string, sent bool, err *Error) {
		switch {
		case err == nil:
			// The queue may have known the message, of records that were deferred:
			// their ids are that chunk's then.
			mark := p.chunk.AppendBinary(nil)
			for _, id := range ids {
				commit = append(commit, dedupe.Entry{ID: id, Value: mark})
			}
		case !sent || err.Code != CodeOutcomeUnknown:
			release = append(release, ids...)
		}
	})
	ctx = context.WithoutCancel(ctx)
	if len(commit) > 0 {
		// A failure changes nothing for the caller: the records are durable,
		// and their ids are held until they lapse.
		_, _ = s.g.o.Dedupe.Commit(ctx, s.ids.scope, s.ids.owner, commit, s.r.IDs.Retention)
	}
	if len(release) > 0 {
		_ = s.g.o.Dedupe.Release(ctx, s.ids.scope, s.ids.owner, release)
	}
}

// publishDeferred publishes records with their ids, which nobody could be asked
// for.
func (s *session) publishDeferred(ctx context.Context, records []int) {
	s.publishWindow(ctx, records, true, func(_ *piece, ids []string, _ bool, err *Error) {
		if err == nil {
			s.result.deferred += len(ids)
		}
	})
}

// publishWindow publishes records of the window, with their ids for whoever
// inserts them or without, and tells for each chunk how it went; sent is false
// when nothing was tried.
func (s *session) publishWindow(ctx context.Context, records []int, withIDs bool, went func(p *piece, ids []string, sent bool, err *Error)) {
	w := &s.ids.window
	var pieces pieces
	for _, at := range records {
		r := &w.records[at]
		id := ""
		if withIDs {
			id = r.id
		}
		p := pieces.add(s.g, r.set, r.index, w.rows[r.from:r.to], id)
		p.records = append(p.records, at)
	}
	for _, p := range pieces.all {
		ids := w.ids(p.records)
		err := s.ended(ctx)
		sent := err == nil
		if sent {
			err = s.sendAlone(ctx, p, messageID(s.topic, ids))
		}
		for _, at := range p.records {
			w.records[at].err = err
		}
		went(p, ids, sent, err)
		if err == nil && s.r.Places {
			s.result.place(p)
		}
		s.g.freePiece(p)
	}
}

// messageID is the same for the same texts in the same order, of one table.
func messageID(t mq.Topic, texts []string) string {
	h := sha256.New()
	for _, text := range append([]string{string(t.Tenant), t.Table}, texts...) {
		h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// pause waits before the store is asked again; false when there is no time left
// for it. An ended context is left for the question to find.
func pause(ctx context.Context, d time.Duration, end time.Time) bool {
	left := time.Until(end)
	if left <= 0 {
		return false
	}
	lifetime.Pause(ctx, min(max(d, time.Millisecond), left))
	return true
}
