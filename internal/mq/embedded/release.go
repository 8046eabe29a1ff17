package embedded

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

const (
	// maxRelease bounds the chunks that are removed one by one at a time: each
	// costs a sync of its own.
	maxRelease = 256
	// maxRemoved bounds what is read of what was removed before a restart. More
	// is found out again.
	maxRemoved = 1 << 20
)

// release removes chunks that are acknowledged, oldest first, though one before
// them is not, and says how many those were: one stuck row must not keep all
// that was written behind it. ackMu is held.
func (q *queue) release(ctx context.Context) (n uint64, err error) {
	if err := q.b.space.notes(); err != nil {
		return 0, err
	}
	if err := q.ledger.Sync(); err != nil {
		return 0, err // what is gone must be known to be acknowledged
	}
	stream, err := q.b.host.js.Stream(ctx, ingestStream(q.tenant))
	if err != nil {
		return 0, fmt.Errorf("remove what is written from stream %s: %w", ingestStream(q.tenant), err)
	}
	for {
		seqs := q.removable(maxRelease - int(n))
		if len(seqs) == 0 {
			return n, nil
		}
		q.leave(seqs)
		for _, seq := range seqs {
			switch err := stream.DeleteMsg(ctx, seq); {
			case err == nil:
				n++
			case !errors.Is(err, natsjs.ErrMsgDeleteUnsuccessful):
				return n, fmt.Errorf("remove chunk %d from stream %s: %w", seq, ingestStream(q.tenant), err)
			}
		}
		if n >= maxRelease {
			return n, nil
		}
	}
}

// removable is the next sequences to remove.
func (q *queue) removable(most int) (seqs []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, above := range q.acked.Above {
		q.removed.Without(above, func(r ledger.Range) bool {
			for ; r.Lo <= r.Hi && len(seqs) < most; r.Lo++ {
				seqs = append(seqs, r.Lo)
			}
			return len(seqs) < most
		})
		if len(seqs) >= most {
			break
		}
	}
	return seqs
}

// leave notes sequences as removed, before they are: a reader that sees one
// vanish is sure to see the note.
func (q *queue) leave(seqs []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removed = q.removed.From(q.first)
	for _, r := range ledger.Merged(seqs) {
		q.removed = q.removed.Add(r)
	}
	q.removedTo = max(q.removedTo, q.removed.Highest())
}

// wholeLocked is the first sequence behind which everything is kept.
func (q *queue) wholeLocked() uint64 { return max(q.first, q.removedTo+1) }

// removed reads what is missing inside a stream.
func (h *host) removed(ctx context.Context, info *natsjs.StreamInfo) (ledger.Ranges, error) {
	switch n := info.State.NumDeleted; {
	case n == 0:
		return nil, nil
	case n > maxRemoved:
		return ledger.Ranges{{Lo: info.State.LastSeq, Hi: info.State.LastSeq}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, jetstream.APITimeout)
	defer cancel()
	s, err := h.js.Stream(ctx, info.Config.Name)
	if err != nil {
		return nil, fmt.Errorf("read what is removed from stream %s: %w", info.Config.Name, err)
	}
	detailed, err := s.Info(ctx, natsjs.WithDeletedDetails(true))
	if err != nil {
		return nil, fmt.Errorf("read what is removed from stream %s: %w", info.Config.Name, err)
	}
	return ledger.Merged(detailed.State.Deleted), nil
}
