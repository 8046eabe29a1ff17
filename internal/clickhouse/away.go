package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// ErrAway says that ClickHouse cannot be reached, or does not answer. The error
// names the address and the setting that it comes from.
var ErrAway = errors.New("ClickHouse is away")

// away is an ErrAway.
type away struct {
	what, place string
	err         error
}

// Error says what failed, where, and why.
func (e *away) Error() string { return fmt.Sprintf("%s at %s: %v", e.what, e.place, e.err) }

// Unwrap returns ErrAway and the cause.
func (e *away) Unwrap() []error { return []error{ErrAway, e.err} }

// failure wraps a failure that is no answer of the server at addr.
func (p *Pool) failure(ctx context.Context, addr string, err error) *Error {
	told := ended(ctx, err)
	kind := transportKind(told)
	if errors.Is(told, context.Canceled) || errors.Is(told, errPoolClosed) {
		return kind.error(Error{Err: told}) // our side ended it
	}
	e := &away{what: "no answer from ClickHouse", place: p.place(addr), err: told}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		e.what, e.err = "cannot reach ClickHouse", ended(ctx, dial.Err)
	}
	return kind.error(Error{Err: e})
}

// place is an address and the setting that it comes from.
func (p *Pool) place(addr string) string {
	if p.config.Source == "" {
		return addr
	}
	return addr + " (" + p.config.Source + ")"
}

// ended is err, or what ended the context: that tells more than what it did to
// the connection.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}
