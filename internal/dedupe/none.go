package dedupe

import (
	"context"
	"time"
)

// None is a Claimer that is never available.
type None struct{}

// Reserve implements Claimer.
func (None) Reserve(context.Context, Scope, Owner, []string) ([]Claim, error) {
	return nil, ErrUnavailable
}

// Commit implements Claimer.
func (None) Commit(context.Context, Scope, Owner, []Entry, time.Duration) (int, error) {
	return 0, ErrUnavailable
}

// Release implements Claimer.
func (None) Release(context.Context, Scope, Owner, []string) error { return ErrUnavailable }
