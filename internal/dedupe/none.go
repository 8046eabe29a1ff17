package dedupe

import (
	"context"
	"time"
)

// None is a Reserver that is never available.
type None struct{}

// Reserve implements Reserver.
func (None) Reserve(context.Context, Scope, Owner, []string) ([]Reservation, error) {
	return nil, ErrUnavailable
}

// Commit implements Reserver.
func (None) Commit(context.Context, Scope, Owner, []Entry, time.Duration) (int, error) {
	return 0, ErrUnavailable
}

// Release implements Reserver.
func (None) Release(context.Context, Scope, Owner, []string) error { return ErrUnavailable }
