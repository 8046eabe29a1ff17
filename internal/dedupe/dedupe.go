// Package dedupe is the contract of the store of seen ids: an id is reserved
// before its record is published and committed after. What an id is, and what
// becomes of its record, is the caller's.
package dedupe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// ErrUnavailable says that the store cannot answer. Whether it did what was asked is
// not known: a reservation that was made lapses by itself.
var ErrUnavailable = errors.New("the store of seen ids is unavailable")

// ErrFull says that a tenant's ids fill its budget: the new ones of the call are not
// reserved, nor anything else of it. It wraps ErrUnavailable.
var ErrFull = fmt.Errorf("%w: the tenant's ids fill their budget", ErrUnavailable)

// Budget bounds what a tenant's ids take.
type Budget struct {
	// Bytes are of keys and values, about; 0 is no bound.
	Bytes int64
	// Forget forgets the oldest ids instead of refusing new ones.
	Forget bool
}

// Budgeted is a store that holds each tenant to a budget. One that is paid by use has
// none.
type Budgeted interface {
	// SetBudgets replaces the budgets; a tenant that is left out has none.
	SetBudgets(budgets map[tenant.ID]Budget)
}

const (
	// MaxWindow bounds the ids of one call.
	MaxWindow = 256
	// MaxValue bounds what is kept beside a committed id, in bytes.
	MaxValue = 64 << 10
)

// Scope is what an id belongs to: the same id of another tenant or table is
// another id.
type Scope struct {
	Tenant tenant.ID
	// Table is the ClickHouse table's name, any characters.
	Table string
}

// Owner is the token of whoever reserves ids: nobody else can commit or release
// them.
type Owner [16]byte

// NewOwner makes a token that nobody else has.
func NewOwner() Owner {
	var o Owner
	_, _ = rand.Read(o[:]) // never fails: it ends the process instead
	return o
}

// State is what Reserve found an id to be.
type State uint8

// The states of an id.
const (
	// New: nobody had the id, and the caller holds it now for the lease.
	New State = iota
	// Duplicate: the id is committed.
	Duplicate
	// InFlight: another holds the id, or is about to.
	InFlight
)

// Reservation is Reserve's answer for one id.
type Reservation struct {
	State State
	// Value is what a Duplicate was committed with, nil for nothing.
	Value []byte
	// RetryAfter is in what time it is worth asking again for an id that is
	// InFlight: longer where the store is paid for each question.
	RetryAfter time.Duration
}

// Entry is an id to commit.
type Entry struct {
	ID string
	// Value is kept beside the id, at most MaxValue bytes; nil for nothing.
	Value []byte
}

// Reserver remembers ids. Ids are any bytes of any length; those of one call are
// distinct and at most MaxWindow. What a call did is durable when it returns
// nil; all errors wrap ErrUnavailable. All methods are safe for concurrent use.
type Reserver interface {
	// Reserve reserves those of the ids that nobody has, and answers for each in
	// their order. A reservation lasts for the store's lease from now on; a lapsed
	// one is as if it had never been. Of two calls at once with one id at most
	// one is told New. One clock judges a lease, the store's own; where there
	// are several, a reservation lapses for others only when the lease is over by
	// more than the clocks differ.
	Reserve(ctx context.Context, s Scope, o Owner, ids []string) ([]Reservation, error)
	// Commit remembers ids for retention from now on, 0 for ever. An owner
	// whose reservation has lapsed may still commit, as long as nobody else holds the
	// id. An id that another holds, or that is committed, is left as it is;
	// lost says how many there were.
	Commit(ctx context.Context, s Scope, o Owner, entries []Entry, retention time.Duration) (lost int, err error)
	// Release gives reservations up. Ids that the owner does not hold are left as
	// they are.
	Release(ctx context.Context, s Scope, o Owner, ids []string) error
}

// Store is a Reserver and its life.
type Store interface {
	Reserver
	// Want says whether any tenant needs the store now. The error is why one
	// that is needed does not work; it is tried again meanwhile.
	Want(ctx context.Context, wanted bool) error
	// Run does the store's housekeeping until ctx ends.
	Run(ctx context.Context) error
	// Close ends the store: later calls are refused, and those under way are
	// waited for until ctx ends.
	Close(ctx context.Context) error
}
