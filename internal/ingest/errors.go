package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// Codes of a request that failed as a whole.
const (
	CodeQueueFull      = "queue.full"
	CodeQueueDown      = "queue.unavailable"
	CodeOutcomeUnknown = "queue.outcome_unknown"
	CodeCanceled       = "request.canceled"
	CodeDedupeDown     = "dedupe.unavailable"
	CodeDedupeFull     = "dedupe.full"
	CodeInFlight       = "dedupe.in_flight"
	CodeKeyInFlight    = "idempotency.in_flight"
	CodeKeyReused      = "idempotency.key_reused"
)

// Error says why a request failed as a whole. A body that cannot be read as a
// whole is a *record.BodyError instead.
type Error struct {
	// Code is one of those above.
	Code string
	// Message is a sentence for the caller.
	Message string
	// RetryAfter is how long the caller should wait, 0 when it need not.
	RetryAfter time.Duration
	// Retryable says whether sending the same records again can help.
	Retryable bool
	// Err is the cause.
	Err error
}

// Error returns the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return fmt.Sprintf("%s: %v", e.Message, e.Err)
}

// Unwrap returns the cause, so that errors.Is finds mq.ErrFull and the others.
func (e *Error) Unwrap() error { return e.Err }

const (
	retryFull = 30 * time.Second
	retryDown = 5 * time.Second
)

// PublishError turns a failure of the queue into the caller's answer. What is
// not known to be harmless is an unknown outcome.
func PublishError(err error) *Error {
	switch {
	case errors.Is(err, mq.ErrFull):
		return &Error{Code: CodeQueueFull, Message: "the queue is full", RetryAfter: retryFull, Retryable: true, Err: err}
	case errors.Is(err, mq.ErrUnavailable), errors.Is(err, mq.ErrClosed):
		return &Error{Code: CodeQueueDown, Message: "the queue is not available", RetryAfter: retryDown, Retryable: true, Err: err}
	case errors.Is(err, mq.ErrTooLarge):
		return &Error{Code: record.CodeTooLarge, Message: "the rows and their column list do not fit a message of the queue", Err: err}
	case errors.Is(err, mq.ErrOutcomeUnknown), errors.Is(err, context.DeadlineExceeded):
	}
	return &Error{
		Code: CodeOutcomeUnknown, Message: "the records may or may not be stored",
		RetryAfter: retryDown, Retryable: true, Err: err,
	}
}

// CanceledError answers a caller that went away before its rows were sent on.
func CanceledError(cause error) *Error {
	return &Error{Code: CodeCanceled, Message: "the request was given up before all of it was stored", Retryable: true, Err: cause}
}

// dedupeDownError answers when it cannot be known whether an id was seen.
func dedupeDownError(err error) *Error {
	if errors.Is(err, dedupe.ErrFull) {
		return &Error{
			Code: CodeDedupeFull, Message: "the tenant's seen ids fill their budget",
			RetryAfter: retryFull, Retryable: true, Err: err,
		}
	}
	return &Error{Code: CodeDedupeDown, Message: "the store of seen ids is not available", RetryAfter: retryDown, Retryable: true, Err: err}
}

// inFlightError answers while another request has an id and its outcome is not
// known, for as long as that may last.
func inFlightError(lease time.Duration) *Error {
	return &Error{
		Code: CodeInFlight, Message: "another request is at a record with the same id",
		RetryAfter: lease, Retryable: true,
	}
}

func keyInFlightError(lease time.Duration) *Error {
	return &Error{
		Code: CodeKeyInFlight, Message: "another request with this Idempotency-Key is under way",
		RetryAfter: lease, Retryable: true,
	}
}

func keyReusedError() *Error {
	return &Error{Code: CodeKeyReused, Message: "this Idempotency-Key belongs to a request with another body"}
}

// waitingFullError is the answer when too many rows wait inside the gate.
func waitingFullError() *Error {
	return PublishError(fmt.Errorf("rows waiting for it: %w", mq.ErrFull))
}
