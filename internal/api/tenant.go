package api

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/telemetry"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const tenantHeader = "X-Tenant-Id"

// request is one request of a tenant: it is served from one snapshot from start
// to end.
type request struct {
	tenant   tenant.ID
	settings *settings.Snapshot
	identity auth.Identity
	query    url.Values
}

type tenantHandler func(w http.ResponseWriter, r *http.Request, c *request) error

// tenant resolves the request's tenant, then who is calling, then serves it.
func (s *Server) tenant(h tenantHandler) http.HandlerFunc {
	return s.route(func(w http.ResponseWriter, r *http.Request) error {
		id, err := tenantOf(r)
		if err != nil {
			s.decorateDefault(w, r)
			return err
		}
		snapshot, err := s.Settings.Get(id)
		if err != nil {
			s.decorateDefault(w, r)
			return unserved(id, err)
		}
		addVary(w.Header(), tenantHeader)
		decorate(w, r, snapshot.Config.CORS.AllowedOrigins)
		telemetry.Add(r.Context(), slog.String("tenant", id.String()))
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return problem(http.StatusBadRequest, "query_string.invalid", "the query string does not parse: "+err.Error())
		}
		c := &request{tenant: id, settings: snapshot, query: query}
		return h(w, r, c)
	})
}

// identify establishes who calls. A stream may carry its token in the URL.
func (s *Server) identify(r *http.Request, c *request, streamToken string) error {
	identity, err := s.Auth.Identify(r, c.settings, streamToken)
	c.identity = identity
	return err
}

// tenantOf reads the tenant header: absent or empty is the default tenant.
func tenantOf(r *http.Request) (tenant.ID, error) {
	values := r.Header.Values(tenantHeader)
	if len(values) > 1 {
		return "", problem(http.StatusBadRequest, "tenant.invalid", "X-Tenant-ID is sent more than once")
	}
	if len(values) == 0 || values[0] == "" {
		return tenant.Default, nil
	}
	id, err := tenant.Parse(values[0])
	if err != nil {
		return "", problem(http.StatusBadRequest, "tenant.invalid", err.Error())
	}
	return id, nil
}

// unserved is the answer for a tenant that is not served. It says nothing
// about what is wrong with its settings.
func unserved(id tenant.ID, err error) error {
	switch {
	case errors.Is(err, settings.ErrUnknownTenant):
		return problem(http.StatusNotFound, "tenant.unknown", "unknown tenant: "+id.String())
	case errors.Is(err, settings.ErrRejected):
		return tenantRejected()
	}
	return err
}

func tenantRejected() *Problem {
	return problem(http.StatusServiceUnavailable, "tenant.rejected",
		"the settings of this tenant are rejected").retryable(30 * time.Second)
}

// oneOf is one for a parameter whose values are these; "" is left out.
func oneOf(query url.Values, name string, values ...string) (string, error) {
	value, _, err := one(query, name)
	if err != nil || value == "" || slices.Contains(values, value) {
		return value, err
	}
	return "", problem(http.StatusBadRequest, "query_string.invalid", name+" must be "+strings.Join(values, " or ")+", or left out")
}

// one returns a parameter that may be given once.
func one(query url.Values, name string) (value string, present bool, err error) {
	values, present := query[name]
	if len(values) > 1 {
		return "", true, problem(http.StatusBadRequest, "query_string.invalid", "the parameter "+name+" is given more than once")
	}
	if !present {
		return "", false, nil
	}
	return values[0], true, nil
}
