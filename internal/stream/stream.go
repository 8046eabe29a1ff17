// Package stream serves live rows over server-sent events. One Hub takes the
// broker's feed, keeps a short shared backlog per table that subscribers read
// at their own pace, and replays history to those that fell behind or come
// back with a position. A subscriber never slows the hub, and the hub never
// slows a publish.
package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Broker is what the hub needs of a queue: a live feed and history. A
// mq.Broker is one.
type Broker interface {
	mq.Feeder
	mq.History
}

// Grant is what a caller may see of one table. Two grants with the same
// Fingerprint show the same rows and columns: their subscribers share one
// projection of each chunk.
type Grant interface {
	// Allows reports whether the caller may see the column.
	Allows(column string) bool
	// Fingerprint names what the grant shows; it must be cheap.
	Fingerprint() string
}

// RowGrant is a Grant that also decides row by row. It is asked once per row
// and distinct Fingerprint, so the fingerprint must cover every value that
// the decision depends on.
type RowGrant interface {
	Grant
	// Visible reports whether the caller may see the row, which is encoded as
	// layout says. An error withholds the row.
	Visible(layout *record.Layout, row []byte) (bool, error)
}

// Memory is bounded, and shared between tenants.
type Memory interface {
	// TakeWithin takes n bytes for a tenant, and waits for them until ctx ends.
	TakeWithin(ctx context.Context, t tenant.ID, n int64) bool
	// Give gives back what TakeWithin took.
	Give(t tenant.ID, n int64)
}

// Options configure a Hub. Broker is required, everything else has a default.
type Options struct {
	Broker Broker
	// IDs makes the event ids; nil makes up a key, which no other process and no
	// later one knows.
	IDs *IDs
	// Logger is where the hub reports; nil discards.
	Logger *slog.Logger
	// Registerer takes the hub's metrics; nil keeps them private.
	Registerer prometheus.Registerer
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Hidden names the columns of a table that are never streamed, whatever
	// the grant says (EPHEMERAL ones). known is false when the table is not
	// in the tenant's catalogue: its rows are then withheld. nil hides
	// nothing. It is called once per chunk and projection and must be cheap.
	Hidden func(t tenant.ID, table string) (columns []string, known bool)
	// QueueBytes bounds what one subscriber may have waiting before it is
	// sent back to history, in bytes of frames (estimated); 0 is 1 MiB.
	QueueBytes int64
	// MaxReplays bounds history reads at once; 0 is 64.
	MaxReplays int
	// ReplayBatchBytes bounds the chunks one history read takes into memory
	// (one chunk at least); 0 is 768 KiB. A reader holds at most one batch.
	ReplayBatchBytes int
	// Memory is where such a batch is taken from; nil has room for every one.
	Memory Memory
	// WriteTimeout is how long one write to a client may take; 0 is 30 s.
	WriteTimeout time.Duration
	// MaxLag is how long a subscriber that fell behind may take to catch up
	// before it is ended; 0 is 30 s.
	MaxLag time.Duration
	// MaxLifetime is how long a stream may stay open, so that connections move
	// to where the load balancer wants them by now; 0 is an hour. Each ends up
	// to a quarter earlier, so that those that opened together do not come back
	// together.
	MaxLifetime time.Duration
}

// Subscription is one caller's wish to follow one table.
type Subscription struct {
	Tenant tenant.ID
	Table  string
	// LastEventID is the Last-Event-ID header, used when HasLastEventID is
	// set and it is not empty. It wins over Since.
	LastEventID    string
	HasLastEventID bool
	// Since starts the stream at the first row received at or after it; zero
	// starts it now.
	Since time.Time
	// Keepalive is the interval between comments, 0 for 30 s, and over how many
	// moments of it the connections are spread, 0 for 3. It is called again by
	// Hub.Reseat; nil is the defaults.
	Keepalive func() (interval time.Duration, buckets int)
	// GapWindow is how much history the tenant keeps at least. A Since within
	// it is taken to be complete without a look at the queue's start.
	GapWindow time.Duration
	// MaxSubscribers bounds the tenant's open streams; 0 is no bound.
	MaxSubscribers int
	// Expires is when the caller's token does; zero is never.
	Expires time.Time
	// Render selects how values are written.
	Render record.RenderOptions
	// Grant reads the caller's grant from the tenant's current snapshot. It
	// is called when the stream opens and for every chunk, and must fail once
	// the tenant is not served or the caller may not read the table. Calls
	// for one subscription are sequential.
	Grant func() (Grant, error)
}

// Reasons of an end event.
const (
	EndShutdown       = "shutdown"
	EndTenantRemoved  = "tenant_removed"
	EndTenantRejected = "tenant_rejected"
	EndSlowConsumer   = "slow_consumer"
	EndTokenExpired   = "token_expired"
	// EndLifetime: the stream was open for as long as one may be.
	EndLifetime = "lifetime"
	// EndAccessRevoked: the caller may no longer read the table.
	EndAccessRevoked = "access_revoked"
	// EndUnavailable: history could not be read; come back with the last id.
	EndUnavailable = "unavailable"
)

// Reasons of a gap event.
const (
	// GapRetention: the rows were removed before the stream opened.
	GapRetention = mq.GapRetention
	// GapOverflow: they were removed while this reader was behind.
	GapOverflow = "overflow"
	// GapReset: the position is of another queue, or ahead of it.
	GapReset = mq.GapReset
)
