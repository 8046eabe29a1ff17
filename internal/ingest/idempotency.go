package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// KeyRetention is how long the key of a request is remembered.
const KeyRetention = 24 * time.Hour

// answered is what is remembered of a request that was answered.
type answered struct {
	// Body is of the request: its format and SHA-256.
	Body []byte `json:"body"`
	// Total and Failed are the answer's counts; the others are stored.
	Total  int `json:"total"`
	Failed int `json:"failed"`
	// Failures are the first of them.
	Failures []RecordResult `json:"failures,omitempty"`
}

// maxFailuresKept bounds answered.Failures, so that it fits dedupe.MaxValue.
const maxFailuresKept = 100

// bodyHash tells this request's body from others.
func (s *session) bodyHash() []byte {
	sum := sha256.Sum256(s.r.Body)
	return append([]byte{byte(s.r.Format)}, sum[:]...)
}

// reserveKey reserves the request's key; false when the request is at its end:
// answered before, or failed.
func (s *session) reserveKey(ctx context.Context) bool {
	s.ids.key = dedupe.RequestID(s.r.Caller, s.d.AppendChecks(nil), s.r.Key)
	ids := []string{s.ids.key}
	for end := time.Now().Add(s.g.o.InFlightWait); ; {
		if s.ended(ctx) != nil {
			return false
		}
		found, err := s.g.o.Dedupe.Reserve(context.WithoutCancel(ctx), s.ids.scope, s.ids.owner, ids)
		switch {
		case err != nil:
			s.failure = dedupeDownError(err)
			return false
		case found[0].State == dedupe.New:
			s.ids.keyed = true
			return true
		case found[0].State == dedupe.Duplicate:
			s.replay(found[0].Value)
			return false
		case !pause(ctx, found[0].RetryAfter, end):
			s.failure = keyInFlightError(s.g.o.Lease)
			return false
		}
	}
}

// replay answers as the first request with the key was answered.
func (s *session) replay(value []byte) {
	var before answered
	if err := json.Unmarshal(value, &before); err != nil {
		s.failure = dedupeDownError(err)
		return
	}
	if string(before.Body) != string(s.bodyHash()) {
		s.failure = keyReusedError()
		return
	}
	r := &s.result
	r.Replayed = true
	r.Total, r.Duplicates = before.Total, before.Total-before.Failed
	r.fail(repeated, before.Failed)
	for _, failure := range before.Failures {
		r.add(failure)
	}
	if len(before.Failures) < before.Failed {
		r.Truncated = true // which of the others failed is not known any more
		return
	}
	failed := make(map[int]bool, len(before.Failures))
	for _, failure := range before.Failures {
		failed[failure.Index] = true
	}
	for index := 1; index <= before.Total && !r.Truncated; index++ {
		if !failed[index] {
			r.add(RecordResult{Index: index, Duplicate: true})
		}
	}
}

// settleKey remembers the answer, or gives the key up: one under which nothing
// was stored may be used again, and one whose request failed in part brings the
// rest with the next attempt. An unknown outcome leaves the reservation to lapse.
func (s *session) settleKey(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	stored := s.result.Succeeded + s.result.Duplicates
	switch {
	case s.ids.unknown:
	case s.failure != nil || stored == 0 && s.result.Total > 0:
		_ = s.g.o.Dedupe.Release(ctx, s.ids.scope, s.ids.owner, []string{s.ids.key})
	default:
		entry := dedupe.Entry{ID: s.ids.key, Value: s.answered()}
		_, _ = s.g.o.Dedupe.Commit(ctx, s.ids.scope, s.ids.owner, []dedupe.Entry{entry}, KeyRetention)
	}
}

func (s *session) answered() []byte {
	a := answered{Body: s.bodyHash(), Total: s.result.Total, Failed: s.result.Failed}
	for _, r := range s.result.Results {
		if r.Code != "" && len(a.Failures) < maxFailuresKept {
			a.Failures = append(a.Failures, r)
		}
	}
	value, err := json.Marshal(a)
	if err != nil || len(value) > dedupe.MaxValue {
		a.Failures = nil
		value, _ = json.Marshal(a) // plain numbers and bytes always marshal
	}
	return value
}

// keyedMessageID names a piece of a request with a key: the same rows of the
// same records under the same key.
func (s *session) keyedMessageID(p *piece) string {
	runs := make([]byte, 0, 8*len(p.runs))
	for _, r := range p.runs {
		runs = binary.AppendUvarint(binary.AppendUvarint(runs, uint64(r.first)), uint64(r.count))
	}
	return messageID(s.topic, []string{s.ids.key, string(runs), string(p.body)})
}
