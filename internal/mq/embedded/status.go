package embedded

import (
	"context"
	"errors"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Status implements mq.Broker.
func (b *Broker) Status(ctx context.Context) mq.Status {
	out := mq.Status{Tenants: map[tenant.ID]mq.TenantStatus{}}
	if b.enter() != nil {
		return out
	}
	defer b.leave()
	ctx, cancel := b.bind(ctx)
	defer cancel()
	out.Connected = b.link.ready() == nil
	out.Full = b.space.full(0)
	states := b.states(ctx)
	for _, q := range b.all() {
		st := q.status(states)
		st.OldestPending = q.oldestPending(ctx)
		out.Tenants[q.tenant] = st
	}
	return out
}

// states asks for all streams' states; they are missing when that fails.
func (b *Broker) states(ctx context.Context) map[string]natsjs.StreamState {
	infos, err := b.link.listStreams(ctx)
	if err != nil {
		b.log.Warn("the store's state is unknown", "error", err)
	}
	states := make(map[string]natsjs.StreamState, len(infos))
	for _, info := range infos {
		states[info.Config.Name] = info.State
	}
	return states
}

func (q *queue) status(states map[string]natsjs.StreamState) mq.TenantStatus {
	in := states[ingestStream(q.tenant)]
	st := mq.TenantStatus{
		Chunks: in.Msgs, Bytes: in.Bytes, Budget: q.current(),
		DeadLetters: states[letterStream(q.tenant)].Msgs,
		Err:         errors.Join(q.ingest.failure(), q.letters.failure()),
		Kept:        q.kept(),
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	st.Pending = q.acked.Pending(q.last)
	return st
}

// kept reports whether any of the queue is on disk, or may be.
func (q *queue) kept() bool {
	return q.ingest.open.Load() || q.letters.open.Load() || q.unopened()
}

func (q *queue) unopened() bool { return q.ingest.failure() != nil || q.letters.failure() != nil }

// Unopened lists the tenants whose streams could not be opened when that was
// tried last. SetBudget tries them again.
func (b *Broker) Unopened() []tenant.ID {
	var ids []tenant.ID
	for _, q := range b.all() {
		if q.unopened() {
			ids = append(ids, q.tenant)
		}
	}
	return ids
}

// oldestPending is when the first unacknowledged chunk was stored.
func (q *queue) oldestPending(ctx context.Context) time.Time {
	q.mu.Lock()
	seq := q.acked.Floor + 1
	known := q.oldestSeq == seq
	at, none := q.oldest, seq > q.last
	q.mu.Unlock()
	switch {
	case none || !q.ingest.open.Load():
		return time.Time{}
	case known:
		return at
	}
	msgs, err := q.b.reads.From(ctx, ingestStream(q.tenant), "", seq, 1, 1)
	if err != nil {
		return time.Time{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.oldestSeq, q.oldest = seq, msgs[0].At
	return q.oldest
}
