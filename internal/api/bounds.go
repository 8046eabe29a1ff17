package api

import (
	"net/http"
	"reflect"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
)

const (
	// maxBounds bounds the row rules that are remembered with the values of
	// their callers, so that a caller's next request does not resolve them.
	maxBounds = 2048
	// maxBoundToken is the longest credential, in bytes, whose rules are
	// remembered: with it the claims that are kept alive are bounded.
	maxBoundToken = 2 << 10
)

// boundKey is whose rule it is. A verified token's claims are one map for all
// of its requests, which is never changed.
type boundKey struct {
	grant  *policy.SelectGrant
	table  *record.Table
	claims uintptr
}

// boundEntry keeps the claims, so that their address stays theirs.
type boundEntry struct {
	claims map[string]any
	bound  *policy.BoundSelect
}

// bindAgain is bindSelect that remembers. Rules that cannot be applied are
// resolved each time, to be reported each time.
func (s *Server) bindAgain(r *http.Request, c *request, grant *policy.SelectGrant, name string, table *record.Table) *policy.BoundSelect {
	claims := c.identity.Claims
	if claims == nil || len(r.Header.Get("Authorization")) > maxBoundToken {
		return s.bindSelect(r.Context(), c, grant, name, table)
	}
	key := boundKey{grant, table, reflect.ValueOf(claims).Pointer()}
	if known, ok := s.bounds.Get(key); ok {
		return known.bound
	}
	bound := s.bindSelect(r.Context(), c, grant, name, table)
	if rule, _ := bound.Rows(); rule != nil {
		s.bounds.Put(key, boundEntry{claims, bound})
	}
	return bound
}
