package wavehouse

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Codes of the client's own; the server's are listed in its manual.
const (
	CodeNetwork         = "client.network"          // no answer; whether the server acted is not known
	CodeTimeout         = "client.timeout"          // no answer in time
	CodeAborted         = "client.aborted"          // the context ended
	CodeRedirect        = "client.redirect"         // a redirect, which is not followed
	CodeToken           = "client.token"            // the token source failed
	CodeInvalidResponse = "client.invalid_response" // an answer that is not WaveHouse's
	CodeInvalidOption   = "client.invalid_option"   // an option that cannot be used
	CodeInvalidRow      = "client.invalid_row"      // a row that has no JSON form, or another one than it is
)

// Error is a failure of a call.
type Error struct {
	// Code is stable: the server's, one of the client's, or http.<status>.
	Code    string
	Message string
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// RequestID is the server's id of the request, for its logs.
	RequestID string
	// Retryable says that the same call may succeed later.
	Retryable bool
	// RetryAfter is how long the server asks to wait.
	RetryAfter time.Duration
	// Details are the other fields of the server's error body.
	Details map[string]json.RawMessage

	cause error
}

// Error returns the message and the code.
func (e *Error) Error() string { return fmt.Sprintf("wavehouse: %s (%s)", e.Message, e.Code) }

// Unwrap returns what caused it.
func (e *Error) Unwrap() error { return e.cause }

// refusal reads an error answer, whose body may be anything a proxy makes up.
func refusal(response *http.Response) *Error {
	e := &Error{
		Code: "http." + strconv.Itoa(response.StatusCode), Status: response.StatusCode,
		Message:   fmt.Sprintf("the server answered %d", response.StatusCode),
		RequestID: response.Header.Get("X-Request-Id"), Retryable: passing(response.StatusCode),
		RetryAfter: retryAfter(response.Header.Get("Retry-After")),
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return e
	}
	take(fields, "error", &e.Message)
	take(fields, "code", &e.Code)
	take(fields, "request_id", &e.RequestID)
	take(fields, "retryable", &e.Retryable)
	e.Details = fields
	return e
}

// take moves a field of the body to where it belongs, when it is of its kind.
func take[T any](fields map[string]json.RawMessage, name string, to *T) {
	var value T
	if raw, ok := fields[name]; ok && json.Unmarshal(raw, &value) == nil {
		*to = value
		delete(fields, name)
	}
}

// passing reports whether the status says that the condition passes by itself.
func passing(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// repeatable reports whether the failed attempt may be made again.
func (e *Error) repeatable(safe bool) bool {
	switch {
	case !e.Retryable || e.RetryAfter > longestRetryAfter:
		return false
	case e.Status == 0:
		// A timeout is not repeated: the server may still be busy with the first.
		return e.Code == CodeNetwork && safe
	}
	return passing(e.Status) && (safe || e.nothingStored())
}

// nothingStored reports whether the answer is WaveHouse's own and says that no row
// was kept. A proxy's answer says nothing about what happened behind it.
func (e *Error) nothingStored() bool {
	if e.Status != http.StatusTooManyRequests && e.Status != http.StatusServiceUnavailable {
		return false
	}
	kept, told := e.Details["succeeded"]
	return !strings.HasPrefix(e.Code, "http.") && e.Code != "queue.outcome_unknown" && (!told || string(kept) == "0")
}

func asError(err error, to **Error) bool { return errors.As(err, to) }

func invalidResponse(message string, cause error) *Error {
	return &Error{Code: CodeInvalidResponse, Message: "the answer cannot be used: " + message, cause: cause}
}
