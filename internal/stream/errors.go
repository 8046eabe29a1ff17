package stream

import "time"

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

func unavailable(message string, cause error) *Error {
	return &Error{Code: CodeUnavailable, Message: message, RetryAfter: 5 * time.Second, Err: cause}
}
