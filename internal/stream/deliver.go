package stream

import (
	"errors"

	"github.com/wavehouse/wavehouse/internal/chunk"
)

// maxKeptBuffer bounds the buffer a subscriber keeps between chunks of a
// replay.
const maxKeptBuffer = 256 << 10

// maxFirstBuffer bounds what is allocated on a guess.
const maxFirstBuffer = 4 << 20

// deliver writes what s may see of c and has not consumed. shared chunks are
// projected once for all members of a group.
func (s *subscriber) deliver(c *sharedChunk, shared bool) error {
	if _, same := s.pos.Compare(c.pos); !same {
		s.skipTo(after(c.pos.Prev()), GapReset)
	}
	skip, all := s.pos.skip(c.pos)
	if all {
		return nil
	}
	if !shared && c.Received.Before(s.notBefore) {
		s.pos = after(c.pos)
		return nil
	}
	grant, err := s.sub.Grant()
	if err != nil {
		s.topic.projector.withhold(withheldGrant, c.Rows-skip, nil)
		s.end(endOf(err))
		return errEnded
	}
	if rows := s.openChunk(c); rows != nil {
		if err := s.writeRows(c, rows, view{grant, s.sub.Render}, skip, shared); err != nil {
			return err
		}
	}
	s.pos = after(c.pos)
	return nil
}

// openChunk finds the rows of c; nil means that they are withheld.
func (s *subscriber) openChunk(c *sharedChunk) *chunk.Chunk {
	c.openOnce.Do(func() {
		opened, err := s.hub.chunks.Open(c.Chunk)
		if err == nil {
			err = opened.Decode()
		}
		if err == nil {
			c.opened = &opened
			return
		}
		reason := withheldLayout
		if _, unknown := errors.AsType[*chunk.FormatError](err); unknown {
			reason = withheldFormat
		}
		s.topic.projector.withhold(reason, max(c.Rows, 1), err)
	})
	return c.opened
}

func (s *subscriber) writeRows(c *sharedChunk, opened *chunk.Chunk, v view, skip int, shared bool) error {
	out, rows := s.project(c, opened, v, skip, shared)
	if rows == 0 {
		return nil
	}
	if err := s.tellGap(); err != nil {
		return err
	}
	if err := s.out.write(out); err != nil {
		return err
	}
	s.topic.counts.rows.Add(float64(rows))
	s.shown = after(c.pos)
	return nil
}

func (s *subscriber) project(c *sharedChunk, opened *chunk.Chunk, v view, skip int, shared bool) ([]byte, int) {
	render := func(dst []byte, first int) ([]byte, int) {
		return s.topic.projector.rows(dst, c.Chunk, c.pos, opened, v, first)
	}
	if shared && skip == 0 {
		f := c.take(s.member(v), func() ([]byte, int) {
			return render(make([]byte, 0, min(size(c.Chunk), maxFirstBuffer)), 0)
		})
		return f.bytes, f.rows
	}
	out, rows := render(s.buf[:0], skip)
	if s.buf = out; cap(out) > maxKeptBuffer {
		s.buf = nil
	}
	return out, rows
}

// member is the group of those who see what v shows; s moves to it when its
// grant changed.
func (s *subscriber) member(v view) *group {
	key := groupKey{fingerprint: v.grant.Fingerprint(), render: v.render}
	if s.group == nil || s.group.key != key {
		s.group = s.topic.join(s.group, key)
	}
	return s.group
}

// missed is a gap that the client is not told of yet.
type missed struct {
	from   string // an event id
	to     position
	reason string
}

// skipTo moves past rows that are gone. Gaps that touch become one, so the
// client is told when rows follow, or none do for now: see tellGap.
func (s *subscriber) skipTo(to position, reason string) {
	if s.gap == nil {
		s.gap = &missed{from: s.topic.projector.ids.encode(s.pos), reason: reason}
	}
	s.gap.to = to
	s.pos = to
}

// tellGap tells the client of a gap, if there is one to tell of.
func (s *subscriber) tellGap() error {
	if s.gap == nil {
		return nil
	}
	gap, ids := *s.gap, s.topic.projector.ids
	s.gap = nil
	if err := s.out.write(appendGap(nil, gap.from, ids.encode(gap.to), gap.reason)); err != nil {
		return err
	}
	s.hub.metrics.gaps.WithLabelValues(s.sub.Tenant.String(), gap.reason).Inc()
	s.shown = gap.to
	return nil
}
