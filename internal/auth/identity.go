package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/policy"
)

// Reasons for which a request's credentials are refused outright.
var (
	// ErrMultipleCredentials: a credential header was sent more than once.
	ErrMultipleCredentials = errors.New("the request carries more than one Authorization or X-Operator-Key header")
	// ErrVerifierPending: the tenant's keys have never been fetched, so a token
	// can be neither accepted nor refused.
	ErrVerifierPending = errors.New("the keys that verify tokens are not there yet")
)

// Reasons for which a token does not count. The caller goes on without a role.
var (
	// ErrTokenInvalid: the token is malformed, wrongly signed or not for us.
	ErrTokenInvalid = errors.New("the token is not valid")
	// ErrTokenExpired: the token was valid once.
	ErrTokenExpired = errors.New("the token has expired")
)

// Identity is who a request comes from.
type Identity struct {
	// Operator: the request carries the operator key. The rest is empty then.
	Operator bool
	// Role is the role in the token, "" without one. The policy may map "" to
	// its default role.
	Role string
	// Subject is the claim that tells callers of one role apart
	// (auth.subject_claim), "" without one.
	Subject string
	// Claims are those of a valid token, numbers as json.Number; nil without
	// one. They are shared and must not be changed.
	Claims map[string]any
	// TokenErr remembers a token that did not count: it wraps ErrTokenInvalid or
	// ErrTokenExpired. A request that is refused later is then 401, not 403.
	TokenErr error
	// Expires is the moment from which the token no longer counts, the leeway
	// included, by its exp or by its age; zero when it never expires or there is
	// none.
	Expires time.Time
}

// Caller tells callers of one tenant apart by who they are: the operator, a role
// and a subject, or nobody in particular, which all callers without a valid token
// are. Equal texts are one caller.
func (id Identity) Caller() string {
	switch {
	case id.Operator:
		return "operator"
	case id.Claims == nil:
		return ""
	}
	return fmt.Sprintf("token %q %q", id.Role, id.Subject)
}

// SelectGrant returns what the caller may read of the table under the policy.
// The error is a *Denial.
func (id Identity) SelectGrant(p *policy.Policy, table string) (*policy.SelectGrant, error) {
	if id.Operator && p.Adopted() {
		return policy.OperatorSelect(), nil
	}
	grant, err := p.Select(id.Role, table)
	if err != nil {
		return nil, id.Deny(err)
	}
	return grant, nil
}

// InsertGrant returns what the caller may insert into the table under the
// policy. The error is a *Denial.
func (id Identity) InsertGrant(p *policy.Policy, table string) (*policy.InsertGrant, error) {
	if id.Operator && p.Adopted() {
		return policy.OperatorInsert(), nil
	}
	grant, err := p.Insert(id.Role, table)
	if err != nil {
		return nil, id.Deny(err)
	}
	return grant, nil
}

// UnknownTable is the answer to a caller who names a table that is not there,
// and has a grant on it as it has on every table of that name or of another: nil
// when it may be told so. Who has no grant on some table is refused as it would
// be there, so that the two look alike.
func (id Identity) UnknownTable(all func(role string) bool) error {
	if id.Operator || all(id.Role) {
		return nil
	}
	return id.Deny(policy.ErrNoGrant)
}

// Ops returns nil when the caller may use the operations routes: with the
// operator key, or with the admin role of p. A nil p lets the key alone in. The
// error is a *Denial.
func (id Identity) Ops(p *policy.Policy) error {
	if id.Operator {
		return nil
	}
	role, ok := p.Role(id.Role)
	switch {
	case p.IsAdmin(role):
		return nil
	case !ok:
		return id.Deny(policy.ErrNoRole)
	}
	return id.Deny(errOpsOnly)
}

var errOpsOnly = errors.New("this route needs the admin role or the operator key")
