package jetstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Outcome is what became of a message.
type Outcome struct {
	// Seq is its sequence in the stream.
	Seq uint64
	// Stream is where.
	Stream string
	// Duplicate says that it was stored before, and not again.
	Duplicate bool
	// Err wraps an error of mq when it is not known to be stored.
	Err error
}

// serverError is an answer that refuses a message: the server's code and
// sentence.
type serverError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *serverError) Error() string { return e.Description + " (" + strconv.Itoa(e.Code) + ")" }

// ErrNoStream says that no stream took the message, or none has a leader.
var ErrNoStream = errors.New("no stream takes it")

// parseAnswer reads what the server says of a message.
func parseAnswer(m *nats.Msg) Outcome {
	if m.Header.Get("Status") == "503" && len(m.Data) == 0 {
		return Outcome{Err: fmt.Errorf("%w: %w", mq.ErrUnavailable, ErrNoStream)}
	}
	var a struct {
		Error     *serverError `json:"error"`
		Stream    string       `json:"stream"`
		Seq       uint64       `json:"seq"`
		Duplicate bool         `json:"duplicate"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return Outcome{Err: fmt.Errorf("%w: unreadable answer: %w", mq.ErrOutcomeUnknown, err)}
	}
	switch {
	case a.Error != nil:
		return Outcome{Err: classify(a.Error)}
	case a.Seq == 0:
		return Outcome{Err: fmt.Errorf("%w: answer without a sequence", mq.ErrOutcomeUnknown)}
	}
	return Outcome{Seq: a.Seq, Stream: a.Stream, Duplicate: a.Duplicate}
}

// Codes of the server for a message that it did not store.
const (
	codeStoreFailed   = 10077
	codeMaxPayload    = 10054
	codeNoResources   = 10023
	codeLimits        = 10028
	codeStorageLimits = 10047
)

// classify turns a refusal into an error of the contract. An error answer
// means that nothing was stored: after a failed write the server does not
// answer at all.
func classify(e *serverError) error {
	switch {
	case e.Code == codeStoreFailed && strings.Contains(e.Description, "too large"), e.Code == codeMaxPayload:
		return fmt.Errorf("%w: %w", mq.ErrTooLarge, e)
	case e.Code == codeStoreFailed && strings.Contains(e.Description, "maximum"),
		e.Code == codeNoResources, e.Code == codeLimits, e.Code == codeStorageLimits:
		return fmt.Errorf("%w: %w", mq.ErrFull, e)
	case e.Code == codeStoreFailed:
		return fmt.Errorf("%w: %w", mq.ErrOutcomeUnknown, e)
	}
	return fmt.Errorf("%w: %w", mq.ErrUnavailable, e)
}
