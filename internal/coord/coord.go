// Package coord is the contract of leases and membership: which of several
// processes does what only one may do, and who else is there.
package coord

import (
	"context"
	"errors"
)

// ErrClosed is returned once a Coordinator is closed.
var ErrClosed = errors.New("coordination is closed")

// Membership is one process's place in a group.
type Membership struct {
	// Self names this process within the group.
	Self string
	// Members are all processes known to be in the group, Self included,
	// sorted.
	Members []string
	// Changes yields the members again after each change; a reader that is
	// late sees the latest only. It is closed when the membership ends: with ctx,
	// at Close, or since it could not be renewed, before others stop counting this
	// process. Who still wants it then joins again.
	Changes <-chan []string
}

// Token is larger than that of every earlier holder of the same lease, in this
// process or another.
type Token uint64

// Coordinator hands out leases. All methods are safe for concurrent use.
type Coordinator interface {
	// Elect waits for the lease called name and calls run while holding it.
	// The context of run ends before anyone else may take the lease over. A
	// process that was paused may find out late: what it writes elsewhere is
	// fenced with the token, by refusing a smaller one than was seen.
	// When the lease is lost, Elect waits for it again; when run returns, so
	// does Elect, with run's error, and the lease is given up. It returns
	// ctx's error when ctx ends first.
	Elect(ctx context.Context, name string, run func(ctx context.Context, token Token) error) error
	// Members joins a group until ctx ends.
	Members(ctx context.Context, group string) (Membership, error)
	// Close gives up everything held; contexts of running calls end.
	Close(ctx context.Context) error
}
