package dedupe

import (
	"context"
	"time"
)

// None is a Store that is never available.
type None struct{}

// Reserve implements Store.
func (None) Reserve(context.Context, Scope, Owner, []string) ([]Claim, error) {
	return nil, ErrUnavailable
}

// Commit implements Store.
func (None) Commit(context.Context, Scope, Owner, []Entry, time.Duration) (int, error) {
	return 0, ErrUnavailable
}

// Release implements Store.
func (None) Release(context.Context, Scope, Owner, []string) error { return ErrUnavailable }
