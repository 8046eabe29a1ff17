// Package mq is the contract of the queue: durable chunks of rows in,
// deliveries to the worker, a live feed and history for streams, and dead
// letters. It speaks of tenants and tables, never of streams, so nothing
// outside internal/mq assumes a layout; nor that this process is the only one,
// that a tenant's tables lie together, or that the queue is this process's to
// shape. What only some queues can do is in capabilities.go.
package mq

import (
	"context"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Errors of a queue, matched with errors.Is.
var (
	// ErrFull: the tenant's share of the queue (or the volume) has no room.
	// Nothing was stored. It clears by itself as the worker drains the queue.
	ErrFull = errors.New("queue is full")
	// ErrUnavailable: the queue certainly did not store the chunk.
	ErrUnavailable = errors.New("queue is unavailable")
	// ErrOutcomeUnknown: the chunk may or may not be stored.
	ErrOutcomeUnknown = errors.New("queue publish outcome is unknown")
	// ErrTooLarge: the chunk is over the queue's limit. Nothing was stored.
	ErrTooLarge = errors.New("chunk is too large")
	// ErrNoDeadLetters: the tenant never parked a row and is not served.
	ErrNoDeadLetters = errors.New("no dead letters")
	// ErrBadCursor: the cursor is none of the list it was given for.
	ErrBadCursor = errors.New("cursor is not of this list")
	// ErrClosed: the queue is closed.
	ErrClosed = errors.New("queue is closed")
	// ErrRevoked: the delivery's shard is another process's by now.
	ErrRevoked = errors.New("shard of the queue is revoked")
	// ErrBudgetNotApplied: the tenant's queue keeps its former budget.
	ErrBudgetNotApplied = errors.New("queue budget is not applied")
)

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

// Header describes the rows of a chunk. The body is never parsed by a queue.
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
	// IDs is how many bytes of the body, before its rows, are ids of the rows: those
	// of a chunk whose ids are still to be claimed. It is 0 for others, and for dead
	// letters.
	IDs int
}

// Chunk is many rows of one tenant, table and column set: the unit of the
// queue. Whoever receives one must not change Body and may keep it; whoever
// publishes one gives Body away and never writes to it again, as feeds and
// deliveries may share it.
type Chunk struct {
	Topic
	Header
	// ID drops duplicates within the queue's window; "" means never a
	// duplicate.
	ID   string
	Body []byte
}

// MaxChunkBytes is the most that any queue takes for a chunk's body and
// headers, 1 MiB.
const MaxChunkBytes = 1 << 20

// Publisher stores chunks.
type Publisher interface {
	// Publish stores the chunk; it is durable when Publish returns nil.
	// Errors wrap ErrFull, ErrUnavailable, ErrOutcomeUnknown, ErrTooLarge or
	// ErrClosed. A duplicate of a stored ID returns the first one's position.
	Publish(ctx context.Context, c Chunk) (Position, error)
	// MaxChunkBytes bounds a chunk's body and headers: MaxChunkBytes, or less.
	// A dead letter that holds all of such a chunk can be parked.
	MaxChunkBytes() int
	// DuplicateWindow is for how long an ID drops others.
	DuplicateWindow() time.Duration
}

// Broker is everything that every queue does. Who uses one asks for the part
// that it needs. All methods of a queue are safe for concurrent use.
type Broker interface {
	Publisher
	Consumer
	Feeder
	History
	Letters
	// Full is why nothing can be stored now, nil when it can. It wraps ErrFull or
	// ErrUnavailable and asks nobody.
	Full() error
	// Close ends everything; later calls return ErrClosed.
	Close(ctx context.Context) error
}
