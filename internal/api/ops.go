package api

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// operator serves a route that only an operator may use: the holder of the operator
// key, or, where there is no other tenant, the admin role of tenant 0's policy.
func (s *Server) operator(h func(w http.ResponseWriter, r *http.Request, query url.Values) error) http.HandlerFunc {
	return s.exempt(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-store")
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			err = problem(http.StatusBadRequest, "query_string.invalid", "the query string does not parse: "+err.Error())
		}
		caller, refused := s.authorizeOps(r)
		switch {
		case refused != nil:
			err = refused
		case err == nil:
			err = h(w, r, query)
		}
		s.audit(r, caller, query.Get("tenant"), err)
		return err
	})
}

// audit logs who did what, and what came of it. What only looks is logged at debug
// level, unless it was refused.
func (s *Server) audit(r *http.Request, caller auth.Identity, of string, err error) {
	outcome, level := "ok", slog.LevelInfo
	if err != nil {
		outcome = problemOf(err).Code
	} else if r.Method == http.MethodGet || r.Method == http.MethodHead {
		level = slog.LevelDebug
	}
	s.Logger.Log(r.Context(), level, "audit", "by", cmp.Or(caller.Caller(), "nobody"), "from", r.RemoteAddr,
		"method", r.Method, "path", r.URL.Path, "of", cmp.Or(of, tenant.Default.String()), "outcome", outcome)
}

func (s *Server) authorizeOps(r *http.Request) (auth.Identity, error) {
	if s.Settings.Nested() {
		return s.authorizeOperator(r)
	}
	snapshot, err := s.Settings.Get(tenant.Default)
	if err != nil {
		snapshot = nil
	}
	identity, err := s.Auth.Identify(r, snapshot, "")
	if err != nil {
		return identity, err
	}
	if snapshot == nil {
		return identity, identity.Ops(nil)
	}
	return identity, identity.Ops(snapshot.Policy)
}

// authorizeOperator lets the operator key alone in: over a nested directory these
// routes reach every tenant, and a token is one tenant's.
func (s *Server) authorizeOperator(r *http.Request) (auth.Identity, error) {
	identity, err := s.Auth.Identify(r, nil, "")
	if err != nil || identity.Operator {
		return identity, err
	}
	return identity, problem(http.StatusForbidden, "auth.forbidden", "this route needs the operator key").
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

// readOperator reads the document of an ops route into v; code is of one that does
// not fit.
func (s *Server) readOperator(w http.ResponseWriter, r *http.Request, v any, code string) error {
	body, release, err := s.bodies.read(w, r, operatorBodies, maxDocument)
	if err != nil {
		return err
	}
	defer release()
	if isBlank(body) {
		return problem(http.StatusBadRequest, "body.empty", "the body is empty")
	}
	if faults := strictjson.Decode(body, v); len(faults) > 0 {
		return problem(http.StatusBadRequest, code, faults[0].Path+": "+faults[0].Message)
	}
	return nil
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
	return writeJSON(w, status, map[string]any{
		"adopted": result.Adopted, "findings": findings,
		"changed": listed(result.Changed), "refused": listed(result.Refused), "removed": listed(result.Removed),
	})
}

// listed is a list that is never null.
func listed(ids []tenant.ID) []tenant.ID { return append([]tenant.ID{}, ids...) }
