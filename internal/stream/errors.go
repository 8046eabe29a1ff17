package stream

import (
	"errors"
	"time"
)

// Codes of an Error.
const (
	CodePositionInvalid    = "stream.position_invalid"
	CodeTooManySubscribers = "stream.too_many_subscribers"
	CodeUnavailable        = "stream.unavailable"
)

// Error is a refusal before the stream opened. Nothing was written.
type Error struct {
	// Code is stable.
	Code    string
	Message string
	// RetryAfter is when to try again; 0 when a retry cures nothing.
	RetryAfter time.Duration
	// Limit is how many streams the tenant may have, with CodeTooManySubscribers.
	Limit int
	// Err is the cause, nil for none. It is not for the caller's eyes.
	Err error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Over is what a Grant returns when the stream has to end with a reason of its
// own: its tenant is no longer served.
type Over struct {
	Reason string
	Err    error
}

func (o *Over) Error() string { return o.Reason + ": " + o.Err.Error() }

// Unwrap returns the cause.
func (o *Over) Unwrap() error { return o.Err }

// endOf is why a stream ends whose grant cannot be had.
func endOf(err error) string {
	if over, ok := errors.AsType[*Over](err); ok {
		return over.Reason
	}
	return EndAccessRevoked
}

func unavailable(message string, cause error) *Error {
	return &Error{Code: CodeUnavailable, Message: message, RetryAfter: 5 * time.Second, Err: cause}
}
