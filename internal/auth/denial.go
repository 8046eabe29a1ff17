package auth

import (
	"errors"
	"net/http"

	"github.com/wavehouse/wavehouse/internal/policy"
)

// Codes of a refusal.
const (
	CodeTokenInvalid = "auth.token_invalid"
	CodeTokenExpired = "auth.token_expired"
	CodeForbidden    = "auth.forbidden"
	CodeNoRole       = "auth.no_role"
)

// Denial is a refusal of a caller, ready to be answered.
type Denial struct {
	// Status is 401 when a token was sent that does not count, else 403.
	Status int
	// Code is one of the codes above.
	Code string
	// Message is a sentence for a person.
	Message string
	// Err is the reason.
	Err error
}

// Error returns the message.
func (d *Denial) Error() string { return d.Message }

// Unwrap returns the reason.
func (d *Denial) Unwrap() error { return d.Err }

// Deny turns a reason to refuse the caller into the answer. A caller whose token
// did not count learns that, because a good one might have been let in.
func (id Identity) Deny(reason error) *Denial {
	switch {
	case errors.Is(id.TokenErr, ErrTokenExpired):
		return unauthorized(CodeTokenExpired, id.TokenErr)
	case id.TokenErr != nil:
		return unauthorized(CodeTokenInvalid, id.TokenErr)
	}
	d := &Denial{Status: http.StatusForbidden, Code: CodeForbidden, Message: reason.Error(), Err: reason}
	if errors.Is(reason, policy.ErrNoRole) {
		d.Code = CodeNoRole
	}
	return d
}

func unauthorized(code string, err error) *Denial {
	return &Denial{Status: http.StatusUnauthorized, Code: code, Message: err.Error(), Err: err}
}
