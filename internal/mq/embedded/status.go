package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Full implements mq.Broker.
func (b *Broker) Full() error { return b.space.full(0) }

// Tenants implements mq.Tenants.
func (b *Broker) Tenants(ctx context.Context, after tenant.ID, limit int) ([]tenant.ID, error) {
	var ids []tenant.ID
	for _, q := range b.all() {
		if q.tenant > after && q.kept() && len(ids) < limit {
			ids = append(ids, q.tenant)
		}
	}
	return ids, ctx.Err()
}

// TenantStatus implements mq.Tenants.
func (b *Broker) TenantStatus(ctx context.Context, t tenant.ID) (mq.TenantStatus, error) {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return mq.TenantStatus{}, err
	}
	defer done()
	q, ok := b.known(t)
	if !ok {
		return mq.TenantStatus{Budget: b.budgetAsked(t)}, ctx.Err()
	}
	states := map[string]natsjs.StreamState{}
	for name, o := range map[string]*opening{ingestStream(t): &q.ingest, letterStream(t): &q.letters} {
		if !o.open.Load() {
			continue
		}
		info, err := jetstream.Info(ctx, b.host.js, name)
		if err != nil {
			return mq.TenantStatus{}, fmt.Errorf("status of the queue of tenant %s: %w", t, err)
		}
		states[name] = info.State
	}
	st := q.status(states)
	st.OldestPending = q.oldestPending(ctx)
	return st, nil
}

// states asks for all streams' states; they are missing when that fails.
func (b *Broker) states(ctx context.Context) map[string]natsjs.StreamState {
	infos, err := b.host.listStreams(ctx)
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
		Err:         q.failure(),
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

// failure is why a part of the queue cannot be opened, nil when it can.
func (q *queue) failure() error { return errors.Join(q.ingest.failure(), q.letters.failure()) }

func (q *queue) unopened() bool { return q.failure() != nil }

// Unopened implements mq.Budgets.
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
