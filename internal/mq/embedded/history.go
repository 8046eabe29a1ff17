package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// roomShare is the part of a full budget that one early purge frees.
const roomShare = 4

// makeRoom purges acknowledged history, oldest first, from a queue that is
// full, and reports whether there was any. History is kept for the streams'
// readers only: giving it up early shows them a gap, keeping it would refuse
// what nobody has written yet.
func (q *queue) makeRoom(ctx context.Context) bool {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	info, err := jetstream.Info(ctx, q.b.host.js, ingestStream(q.tenant))
	if err != nil || info.State.Msgs == 0 {
		return false
	}
	share := uint64(info.Config.MaxBytes / roomShare)
	if info.State.Bytes+mq.MaxChunkBytes+share <= uint64(info.Config.MaxBytes) {
		return true // made by another publish meanwhile
	}
	average := max(info.State.Bytes/info.State.Msgs, 1)
	n, err := q.purge(ctx, info.State.FirstSeq+max(share/average, 1))
	if err == nil && n == 0 {
		n, err = q.release(ctx)
	}
	if err != nil {
		q.log.Warn("history is not purged early", "error", err)
	}
	if n > 0 {
		q.b.metrics.early.WithLabelValues(string(q.tenant)).Add(float64(n))
		q.log.Info("queue is full: acknowledged history is purged early", "chunks", n)
	}
	return n > 0
}

// purge removes what is acknowledged below seq and says how much that was.
// ackMu is held, so that nothing else moves the start of the stream.
func (q *queue) purge(ctx context.Context, seq uint64) (uint64, error) {
	if err := q.b.space.notes(); err != nil {
		return 0, err
	}
	if err := q.ledger.Sync(); err != nil {
		return 0, err // what is gone must be known to be acknowledged
	}
	q.mu.Lock()
	seq = min(seq, q.acked.Floor+1)
	first := max(q.first, 1)
	q.mu.Unlock()
	if seq <= first {
		return 0, nil
	}
	if q.hurtAt(seq) {
		return 0, fmt.Errorf("stream %s is damaged: it is repaired first", ingestStream(q.tenant))
	}
	q.mu.Lock()
	// The start moves before the purge, so that a reader which saw messages
	// vanish is sure to see the new start.
	q.first = max(q.first, seq)
	var kept uint64
	q.removed.Without(ledger.Range{Lo: first, Hi: seq - 1}, func(r ledger.Range) bool { kept += r.Hi - r.Lo + 1; return true })
	q.mu.Unlock()
	if err := q.b.host.purgeBelow(ctx, ingestStream(q.tenant), seq); err != nil {
		if start, _, e := q.bounds(ctx); e == nil {
			q.mu.Lock()
			q.first = start
			q.mu.Unlock()
		}
		return 0, err
	}
	return kept, nil
}

// Purge implements mq.Purger.
func (b *Broker) Purge(ctx context.Context, cutoffs map[tenant.ID]time.Time) (map[tenant.ID]uint64, error) {
	purged := map[tenant.ID]uint64{}
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return purged, err
	}
	defer done()
	var errs []error
	for t, cutoff := range cutoffs {
		q, ok := b.known(t)
		if !ok || !q.ingest.open.Load() {
			continue
		}
		n, err := q.purgeOlder(ctx, cutoff)
		if err != nil {
			errs = append(errs, err)
		}
		if n > 0 {
			purged[t] = n
		}
	}
	return purged, errors.Join(errs...)
}

func (q *queue) purgeOlder(ctx context.Context, cutoff time.Time) (uint64, error) {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	q.mu.Lock()
	limit, idle := q.acked.Floor+1, q.acked.Floor < max(q.first, 1)
	q.mu.Unlock()
	if idle {
		return 0, nil // nothing acknowledged is kept
	}
	m, err := q.b.reads.Since(ctx, ingestStream(q.tenant), cutoff)
	switch {
	case errors.Is(err, jetstream.ErrNoMessage): // all is older
	case err != nil:
		return 0, err
	default:
		limit = min(limit, m.Seq)
	}
	return q.purge(ctx, limit)
}

// purgeAll gives up all acknowledged history, when the volume is full.
func (q *queue) purgeAll(ctx context.Context) {
	if !q.ingest.open.Load() {
		return
	}
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	n, err := q.purge(ctx, ^uint64(0))
	if err == nil {
		var released uint64
		released, err = q.release(ctx)
		n += released
	}
	if err != nil {
		q.log.Warn("history is not purged early", "error", err)
	}
	q.b.metrics.early.WithLabelValues(string(q.tenant)).Add(float64(n))
}
