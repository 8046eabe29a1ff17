// Package mq is the broker contract: durable chunks of rows in, deliveries to
// the worker, a live feed and replay for streams, and dead letters. It speaks
// of tenants and tables, never of streams, so nothing outside internal/mq
// assumes a layout.
package mq

import (
	"context"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Errors of a Broker, matched with errors.Is.
var (
	// ErrFull: the tenant's budget (or the volume) has no room. Nothing was
	// stored. It clears by itself as the worker drains the queue.
	ErrFull = errors.New("queue is full")
	// ErrUnavailable: the broker certainly did not store the chunk.
	ErrUnavailable = errors.New("queue is unavailable")
	// ErrOutcomeUnknown: the chunk may or may not be stored.
	ErrOutcomeUnknown = errors.New("queue publish outcome is unknown")
	// ErrTooLarge: the chunk is over MaxChunkBytes. Nothing was stored.
	ErrTooLarge = errors.New("chunk is too large")
	// ErrNoDeadLetters: the tenant never parked a row and is not served.
	ErrNoDeadLetters = errors.New("no dead letters")
	// ErrBadCursor: the cursor is none of the list it was given for.
	ErrBadCursor = errors.New("cursor is not of this list")
	// ErrClosed: the broker is closed.
	ErrClosed = errors.New("queue is closed")
	// ErrBudgetNotApplied: the tenant's queue keeps its former budget.
	ErrBudgetNotApplied = errors.New("queue budget is not applied")
)

// MaxChunkBytes bounds a chunk's body plus headers, 1 MiB.
const MaxChunkBytes = 1 << 20

// Topic names where a chunk belongs.
type Topic struct {
	Tenant tenant.ID
	// Table is the ClickHouse table's name, any characters.
	Table string
}

// Formats of a chunk's body.
const (
	FormatRowBinary          = "RowBinary"
	FormatJSONCompactEachRow = "JSONCompactEachRow"
)

// Version is the chunk format's version on the wire.
const Version = "1"

// Header describes the rows of a chunk. The body is never parsed by a broker.
type Header struct {
	// Version is "1"; a reader that meets another parks the chunk.
	Version string
	// Format is FormatRowBinary or FormatJSONCompactEachRow.
	Format string
	// Columns is a JSON array of {"name","type"} as they were when the rows
	// were encoded, in wire order.
	Columns string
	// Rows counts the rows in the body.
	Rows int
	// Received is when the gate took the first row.
	Received time.Time
	// Encoding is "" or "zstd".
	Encoding string
	// TraceParent is a W3C traceparent, "" for none.
	TraceParent string
}

// Chunk is many rows of one tenant, table and column set: the unit of the
// queue. Whoever receives one must not change Body and may keep it; whoever
// publishes one gives Body away and never writes to it again, as feeds and
// deliveries may share it.
type Chunk struct {
	Topic
	Header
	// ID drops duplicates within the broker's window; "" means never a
	// duplicate.
	ID   string
	Body []byte
}

// Delivery is one chunk handed to the worker. Exactly one of Ack and Nak ends
// it; until then the broker keeps the chunk. A delivery that is neither
// acknowledged nor extended for the broker's ack wait is delivered again.
type Delivery interface {
	Chunk() Chunk
	Position() Position
	// Attempt counts deliveries of this chunk, from 1.
	Attempt() int
	// Nak hands the chunk back; it is delivered again after delay.
	Nak(delay time.Duration) error
	// Extend restarts the ack wait.
	Extend() error
}

// Malformed is a stored message that is not a chunk: it reaches the handler
// as a Delivery whose Chunk has Version "" and the message's raw body, so
// that it can be parked and never blocks the queue.

// ConsumeOptions bound what the broker hands out unacknowledged.
type ConsumeOptions struct {
	// MaxBytesPerTenant and MaxBytes bound the bodies delivered ahead of the
	// handler per tenant and in total; 0 means the broker's default.
	MaxBytesPerTenant int64
	MaxBytes          int64
}

// Consumption is a running delivery.
type Consumption interface {
	// Ack ends deliveries of this consumption. When it returns nil they are
	// not delivered again, even if the process is killed at once.
	Ack(ds ...Delivery) error
	// Stop ends delivery: no handler call starts after it returns, and those
	// running have returned. Deliveries may still be acknowledged afterwards.
	Stop(ctx context.Context) error
	// Failed yields one error if delivery ends on its own, and never one
	// after Stop. It is not closed.
	Failed() <-chan error
}

// Feed is a live subscription to chunks.
type Feed interface {
	// Close ends the feed; no handler call is running when it returns.
	Close()
}

// DeadLetter is one row that could not be written.
type DeadLetter struct {
	Topic
	// Row is the row in the format and columns of Header (Rows is 1), or the
	// raw message when Header.Version is "".
	Header
	Row []byte
	// Error is ClickHouse's or our sentence, Code a stable machine code or a
	// ClickHouse code as text.
	Error string
	Code  string
	// At is when it was parked.
	At time.Time
	// Source is the position of the chunk it came from and SourceRow the
	// row's index in it.
	Source    Position
	SourceRow int
	// ID names the dead letter within its tenant; set by the store.
	ID string
	// KeepOlder has Park fail with ErrFull where storing the letter would push
	// out older ones. It is not stored.
	KeepOlder bool
}

// DeadLetterPage is one page of a listing.
type DeadLetterPage struct {
	Letters []DeadLetter
	// Next is the cursor of the following page, "" at the end.
	Next string
}

// DeadLetterStore reads one tenant's dead letters.
type DeadLetterStore interface {
	// Counts are exact, per table; tables without letters are absent.
	Counts(ctx context.Context) (map[string]uint64, error)
	// List pages through one table's letters, oldest first; limit is 1 to
	// 1000; cursor "" starts, and a letter's ID goes on behind it. The error is
	// ErrBadCursor for a cursor that is neither.
	List(ctx context.Context, table string, limit int, cursor string) (DeadLetterPage, error)
	// Get returns one letter; ok is false when it is gone.
	Get(ctx context.Context, id string) (letter DeadLetter, ok bool, err error)
	// Discard removes letters and says how many there were. Of calls for the
	// same letter at the same time one counts it.
	Discard(ctx context.Context, ids ...string) (int, error)
	// DiscardThrough removes a table's letters up to and including id, which
	// may be gone itself, and says how many there were. It is made for many.
	DiscardThrough(ctx context.Context, table, id string) (int, error)
}

// PurgeReport says what a Purge removed.
type PurgeReport struct {
	Chunks map[tenant.ID]uint64
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
	// Err says why the tenant's queue cannot be opened, nil when it can.
	Err error
	// Kept says that the queue is stored: a tenant that only has a budget keeps
	// nothing.
	Kept bool
}

// Status is the broker's health.
type Status struct {
	Connected bool
	// Full is the cause when the volume has no room, nil otherwise.
	Full    error
	Tenants map[tenant.ID]TenantStatus
}

// ReplayGap says that chunks between a replay's start and First are gone.
type ReplayGap struct {
	// Reason is "retention" or "reset".
	Reason string
	// First is the first position still kept; zero when nothing is.
	First Position
}

func (g *ReplayGap) Error() string { return "history is gone: " + g.Reason }

// Broker is a durable queue of chunks, per tenant. All methods are safe for
// concurrent use.
type Broker interface {
	// Publish stores the chunk; it is durable when Publish returns nil.
	// Errors wrap ErrFull, ErrUnavailable, ErrOutcomeUnknown, ErrTooLarge or
	// ErrClosed. A duplicate of a stored ID returns the first one's position.
	Publish(ctx context.Context, c Chunk) (Position, error)
	// Consume delivers every stored chunk of every tenant, those of tenants
	// that first publish later included. Calls for one tenant are sequential
	// and in stream order; a handler that blocks delays its tenant alone.
	Consume(ctx context.Context, o ConsumeOptions, handle func(Delivery)) (Consumption, error)
	// Feed calls handle with every chunk published from now on, once durable,
	// in order per tenant. handle must not block.
	Feed(ctx context.Context, handle func(Chunk, Position)) (Feed, error)
	// Replay calls handle with the topic's chunks after position from, up to
	// and including until, in order, at handle's pace. When chunks after from
	// are gone, or from is of another epoch, handle is not called and the
	// error is a *ReplayGap: replay again from just before its First.
	Replay(ctx context.Context, t Topic, from, until Position, handle func(Chunk, Position) error) error
	// Tail returns the position of the tenant's newest chunk, zero when there
	// is none.
	Tail(ctx context.Context, t tenant.ID) (Position, error)
	// PositionAt returns the position just before the tenant's first chunk
	// received at or after at: a Replay from it starts there.
	PositionAt(ctx context.Context, t tenant.ID, at time.Time) (Position, error)
	// Park stores dead letters durably, in order.
	Park(ctx context.Context, letters ...DeadLetter) error
	// DeadLetters opens a tenant's store. It never fails for a tenant that
	// parked nothing: its counts are empty.
	DeadLetters(t tenant.ID) (DeadLetterStore, error)
	// SetBudget caps the tenant's queue in bytes (a tenth for dead letters).
	// It is remembered for a queue that is not open yet.
	SetBudget(ctx context.Context, t tenant.ID, bytes int64) error
	// Purge removes, per tenant, what is both acknowledged and older than the
	// cutoff. It never removes an unacknowledged chunk.
	Purge(ctx context.Context, cutoffs map[tenant.ID]time.Time) (PurgeReport, error)
	Status(ctx context.Context) Status
	// Close ends everything; later calls return ErrClosed.
	Close(ctx context.Context) error
}
