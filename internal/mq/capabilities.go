package mq

import (
	"context"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// What follows is for queues that this process shapes. Whoever needs one of it
// asks whether the queue has it.

// Budgets caps what tenants keep in the queue.
type Budgets interface {
	// SetBudget caps the tenant's queue in bytes (a tenth for dead letters).
	// It is remembered for a queue that is not open yet, and tries again one
	// that could not be opened. It wraps ErrBudgetNotApplied when the queue
	// keeps its former budget for now.
	SetBudget(ctx context.Context, t tenant.ID, bytes int64) error
	// Unopened lists the tenants whose queues could not be opened when that
	// was tried last.
	Unopened() []tenant.ID
}

// Purger forgets history on request.
type Purger interface {
	Tenants
	// Purge removes, per tenant, what is both acknowledged and stored before
	// the cutoff, and says how many chunks that was, also when it fails. It
	// never removes an unacknowledged chunk.
	Purge(ctx context.Context, cutoffs map[tenant.ID]time.Time) (map[tenant.ID]uint64, error)
}

// Tenants knows each tenant's queue.
type Tenants interface {
	// Tenants lists up to limit tenants behind after, in order, of which
	// something is or may be stored.
	Tenants(ctx context.Context, after tenant.ID, limit int) ([]tenant.ID, error)
	// TenantStatus looks at one tenant's queue.
	TenantStatus(ctx context.Context, t tenant.ID) (TenantStatus, error)
}

// TenantStatus is one tenant's queue.
type TenantStatus struct {
	// Chunks and Bytes count everything kept, history included; Pending
	// counts chunks not yet acknowledged.
	Chunks, Bytes, Pending uint64
	// Budget is the cap in bytes that is applied.
	Budget int64
	// DeadLetters counts parked rows.
	DeadLetters uint64
	// OldestPending is when the oldest unacknowledged chunk was stored; zero
	// when there is none.
	OldestPending time.Time
	// Err says why the tenant's queue cannot be opened, nil when it can. What
	// is counted is unknown then.
	Err error
	// Kept says that the queue is stored: a tenant that only has a budget keeps
	// nothing.
	Kept bool
}

// Floors knows what of a topic's queue the worker is done with.
type Floors interface {
	// Floor returns the position up to which every chunk is acknowledged, and
	// the newest chunk that was stored before this process had the topic's shard:
	// what is unacknowledged up to there may have been delivered by the one
	// before. Both are zero for a queue that is not open, inherited for a shard
	// that is another's, whose owner knows.
	Floor(ctx context.Context, t Topic) (floor, inherited Position, err error)
}
