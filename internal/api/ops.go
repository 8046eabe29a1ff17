package api

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// operator serves a route that only an operator may use: the holder of the operator
// key, or, where there is no other tenant, the admin role of tenant 0's policy.
func (s *Server) operator(h func(w http.ResponseWriter, r *http.Request, query url.Values) error) http.HandlerFunc {
	return s.exempt(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-store")
		if err := s.authorizeOps(r); err != nil {
			return err
		}
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return problem(http.StatusBadRequest, "query_string.invalid", "the query string does not parse: "+err.Error())
		}
		return h(w, r, query)
	})
}

func (s *Server) authorizeOps(r *http.Request) error {
	if s.Settings.Nested() {
		return s.authorizeOperator(r)
	}
	snapshot, err := s.Settings.Get(tenant.Default)
	if err != nil {
		snapshot = nil
	}
	identity, err := s.Auth.Identify(r, snapshot, "")
	if err != nil {
		return err
	}
	if snapshot == nil {
		return identity.Ops(nil)
	}
	return identity.Ops(snapshot.Policy)
}

// authorizeOperator lets the operator key alone in: over a nested directory these
// routes reach every tenant, and a token is one tenant's.
func (s *Server) authorizeOperator(r *http.Request) error {
	identity, err := s.Auth.Identify(r, nil, "")
	if err != nil || identity.Operator {
		return err
	}
	return problem(http.StatusForbidden, "auth.forbidden", "this route needs the operator key").
		hint("with many tenants no token opens it")
}

// opsTenant reads ?tenant= strictly: absent is tenant 0, anything that is not
// one tenant id is a refusal and never a silent default.
func opsTenant(query url.Values) (id tenant.ID, named bool, err error) {
	value, present, err := one(query, "tenant")
	if err != nil || !present {
		return tenant.Default, false, err
	}
	id, err = tenant.Parse(value)
	if err != nil {
		return "", true, problem(http.StatusBadRequest, "tenant.invalid", err.Error())
	}
	return id, true, nil
}

// opsOneTenant is opsTenant for a route that is about one: where there are many and
// none is tenant 0, one must be named.
func (s *Server) opsOneTenant(query url.Values) (tenant.ID, error) {
	id, named, err := opsTenant(query)
	if err != nil || named || !s.Settings.Nested() {
		return id, err
	}
	if _, err := s.Settings.Get(id); errors.Is(err, settings.ErrUnknownTenant) {
		return "", problem(http.StatusNotFound, "tenant.unknown", "unknown tenant: "+id.String()).
			hint("this server has many tenants: name one with ?tenant=acme (--tenant acme on the command line)")
	}
	return id, nil
}

// servedTenant is opsOneTenant for a route that needs the tenant's settings.
func (s *Server) servedTenant(query url.Values) (*request, error) {
	id, err := s.opsOneTenant(query)
	if err != nil {
		return nil, err
	}
	snapshot, err := s.Settings.Get(id)
	if err != nil {
		return nil, unserved(id, err)
	}
	return &request{tenant: id, settings: snapshot, query: query}, nil
}

// opsReload reads the settings again: POST /v1/ops/settings/reload.
func (s *Server) opsReload(w http.ResponseWriter, r *http.Request, query url.Values) error {
	id, named, err := opsTenant(query)
	if err != nil {
		return err
	}
	var only *tenant.ID
	if named {
		only = &id
	}
	result := s.Settings.Reload(r.Context(), only)
	if result.Err != nil {
		return unserved(id, result.Err)
	}
	status := http.StatusOK
	if !result.Adopted {
		status = http.StatusUnprocessableEntity
	}
	findings := result.Findings
	if findings == nil {
		findings = []settings.Finding{}
	}
	return writeJSON(w, status, map[string]any{"adopted": result.Adopted, "findings": findings})
}
