package mq

import (
	"context"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

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

// Letters keeps dead letters.
type Letters interface {
	// Park stores dead letters durably, in order. When it fails some may be
	// stored. A letter that is a raw message and larger than the queue stores
	// is cut, and its Error says so; the oldest letters make room for new
	// ones.
	Park(ctx context.Context, letters ...DeadLetter) error
	// DeadLetters opens a tenant's store. It never fails for a tenant that
	// parked nothing: its counts are empty.
	DeadLetters(t tenant.ID) (DeadLetterStore, error)
}
