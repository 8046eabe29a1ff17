package ingest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

const (
	// ownChunkRows and ownChunkBytes are from when on rows gain nothing by
	// waiting for others: they make a chunk of their own.
	ownChunkRows  = 256
	ownChunkBytes = 128 << 10
	// maxEncodedBytes is how much of one body is encoded before some of it is
	// published.
	maxEncodedBytes = 4 << 20
)

// session is one request's way through the gate.
type session struct {
	g        *Gate
	r        *Request
	topic    mq.Topic
	d        *record.Decoder
	received time.Time
	result   Result
	pieces   pieces
	// failure is why nothing more is published.
	failure *Error
	// refreshed is true once Refresh was asked.
	refreshed bool
	// unknown are the fields that the table has no column for, by name, of the
	// records so far; nil for none. unknownFields counts all.
	unknown       map[string]*driftEntry
	unknownFields int
	// ids is nil for a request that nothing is remembered of.
	ids *reservations
}

// run takes the request through; the error is as Ingest's.
func (s *session) run(ctx context.Context) error {
	// The decoder has looked through the body: nothing is stored of one that
	// is malformed as a whole.
	if err := s.openBody(ctx); err != nil {
		return err
	}
	s.result.Single = s.d.Single()
	if s.r.Key == "" || s.reserveKey(ctx) {
		s.decode(ctx)
		s.publish(ctx)
	}
	s.result.sort()
	if s.ids != nil && s.ids.keyed {
		s.settleKey(ctx)
	}
	if s.failure != nil {
		return s.failure
	}
	return nil
}

// openBody returns what the body as a whole is at fault for. A header line that
// names an unknown column is read once more against the table as it is now.
func (s *session) openBody(ctx context.Context) error {
	err := s.d.Err()
	var fault *record.BodyError
	if !errors.As(err, &fault) || fault.Code != record.CodeUnknownColumn || s.r.Refresh == nil {
		return err
	}
	s.refreshed = true
	if table := s.r.Refresh(ctx); table != nil {
		s.d = s.g.decoder(s.r, table)
	}
	return s.d.Err()
}

// decode reads the body to its end, publishing on the way what would be too
// much to hold.
func (s *session) decode(ctx context.Context) {
	for s.d.Next() {
		rec := s.d.Record()
		if rec.Err != nil && rec.Err.Code == record.CodeUnknownColumn {
			rec = s.secondLook(ctx, rec)
		}
		if len(s.d.Unknown()) > 0 {
			if rec.Err == nil && !s.refreshed && s.anyNew() {
				rec = s.secondLook(ctx, rec)
			}
			s.noteUnknown()
		}
		if rec.Err == nil && len(rec.Set.Columns()) == 0 {
			rec.Err = &record.Error{Code: record.CodeMissingColumn, Message: "the record has no value for any column"}
		}
		if rec.Err != nil {
			s.result.refuse(rec.Index, rec.Err)
			continue
		}
		s.result.Total++
		if s.setAside(ctx, rec) {
			continue
		}
		s.pieces.add(s.g, rec.Set, rec.Index, rec.Row, "")
		if s.pieces.size >= maxEncodedBytes {
			s.publish(ctx)
		}
	}
	if s.ids != nil {
		s.settleWindow(ctx)
	}
}

// setAside keeps a record with an id aside, to be reserved with others; it is
// false for a record that goes its way unreserved.
func (s *session) setAside(ctx context.Context, rec record.Record) bool {
	switch {
	case s.ids == nil || s.r.IDs == nil:
		return false
	case rec.ID == nil:
		s.result.withoutID++
		return false
	}
	s.ids.window.add(rec)
	if s.ids.window.full() {
		s.settleWindow(ctx)
	}
	return true
}

// secondLook judges a record with an unknown column against the table as it is
// now, once per request: the column may have been added a moment ago. The
// records after it are read against the newer table too.
func (s *session) secondLook(ctx context.Context, rec record.Record) record.Record {
	if s.refreshed || s.r.Refresh == nil {
		return rec
	}
	s.refreshed = true
	table := s.r.Refresh(ctx)
	if table == nil {
		return rec
	}
	d := s.g.decoder(s.r, table)
	for d.Next() {
		if d.Record().Index == rec.Index {
			s.d = d
			return d.Record()
		}
	}
	return rec
}

// publish makes everything encoded so far durable, in the order of the body
// within a column set. After a failure nothing more is published; the rows are
// then counted as failed.
func (s *session) publish(ctx context.Context) {
	pieces := s.pieces
	s.pieces.reset()
	if s.failure == nil && !s.g.waiting.Take(s.r.Tenant, pieces.size) {
		s.failure = waitingFullError()
	} else if s.failure == nil {
		defer s.g.waiting.Give(s.r.Tenant, pieces.size)
	}
	for _, p := range pieces.all {
		err := s.send(ctx, p)
		s.result.settle(p, err, s.r.AllResults)
		if err == nil && s.r.Places {
			s.result.place(p)
		}
		s.g.freePiece(p)
	}
}

// ended returns why nothing more is published, nil while something is.
func (s *session) ended(ctx context.Context) *Error {
	if s.failure == nil && ctx.Err() != nil {
		s.failure = CanceledError(ctx.Err())
	}
	return s.failure
}

// send publishes one piece unless the request has failed before.
func (s *session) send(ctx context.Context, p *piece) *Error {
	switch {
	case s.ended(ctx) != nil:
		return s.failure
	case s.ids != nil && s.ids.keyed:
		return s.sendAlone(ctx, p, s.keyedMessageID(p))
	case p.rows >= ownChunkRows || len(p.body) >= ownChunkBytes:
		return s.sendAlone(ctx, p, "")
	}
	return s.noted(s.g.join(ctx, laneKey{topic: s.topic, set: p.set}, p, s.received, s.r.TraceParent))
}

// sendAlone publishes a piece as a chunk of its own. By an id the queue knows it
// again; "" is none.
func (s *session) sendAlone(ctx context.Context, p *piece, id string) *Error {
	b := &shared{body: slices.Concat(p.ids, p.body), ids: len(p.ids), rows: p.rows, received: s.received, trace: s.r.TraceParent, id: id}
	err := s.g.store(ctx, laneKey{topic: s.topic, set: p.set}, b)
	p.chunk = b.position
	if id != "" && err != nil && err.Code == CodeOutcomeUnknown {
		s.ids.unknown = true
		err.RetryAfter = s.g.o.Lease // the reservation is held until then
	}
	return s.noted(err)
}

// noted ends a request whose piece failed for a reason that is not the piece's.
func (s *session) noted(err *Error) *Error {
	if err != nil && err.Retryable {
		s.failure = err
	}
	return err
}
