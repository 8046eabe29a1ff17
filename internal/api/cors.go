package api

import (
	"net/http"
	"slices"
	"strings"
)

const (
	corsMethods = "GET, POST, DELETE, OPTIONS"
	corsHeaders = "Authorization, Content-Type, Content-Encoding, Last-Event-ID, X-Tenant-ID, X-Request-ID, " +
		"Idempotency-Key, If-None-Match, Cache-Control, Accept, X-Operator-Key, traceparent"
	corsExposed = "Retry-After, RateLimit, RateLimit-Policy, X-Request-ID, X-Cache, X-Result-Truncated, X-Next-Cursor, X-Stream-Position, X-Stream-Join, ETag, Idempotent-Replayed, " +
		"Server-Timing, X-Rows-Read, X-Bytes-Read, X-Data-Through, X-Query-ID"
	corsMaxAge = "600"
)

// decorate adds the CORS headers that an origin list grants the request. The
// API takes bearer tokens only, so credentials are never allowed.
func decorate(w http.ResponseWriter, r *http.Request, origins []string) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	header := w.Header()
	any := slices.Contains(origins, "*")
	if !any {
		addVary(header, "Origin")
	}
	switch {
	case any:
		header.Set("Access-Control-Allow-Origin", "*")
	case slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, origin) }):
		header.Set("Access-Control-Allow-Origin", origin)
	default:
		return
	}
	if isPreflight(r) {
		header.Set("Access-Control-Allow-Methods", corsMethods)
		header.Set("Access-Control-Allow-Headers", corsHeaders)
		header.Set("Access-Control-Max-Age", corsMaxAge)
		return
	}
	header.Set("Access-Control-Expose-Headers", corsExposed)
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

func addVary(header http.Header, name string) {
	if !slices.Contains(header.Values("Vary"), name) {
		header.Add("Vary", name)
	}
}

// preflight answers CORS preflights on every path, from the list of the tenant
// that the preflight names (browsers name none: tenant 0). Where the tenant is
// not served or the route belongs to none, tenant 0's list holds.
func (s *Server) preflight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isPreflight(r) {
			next.ServeHTTP(w, r)
			return
		}
		s.decoratePreflight(w, r)
		w.WriteHeader(http.StatusNoContent)
	})
}

func (s *Server) decoratePreflight(w http.ResponseWriter, r *http.Request) {
	if !belongsToTenant(r.URL.Path) {
		s.decorateDefault(w, r)
		return
	}
	addVary(w.Header(), tenantHeader)
	id, err := tenantOf(r)
	if err != nil {
		s.decorateDefault(w, r)
		return
	}
	snapshot, err := s.Settings.Get(id)
	if err != nil {
		s.decorateDefault(w, r)
		return
	}
	decorate(w, r, snapshot.Config.CORS.AllowedOrigins)
}

// belongsToTenant reports whether the routes of a path resolve a tenant.
func belongsToTenant(path string) bool {
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/ops/")
}
