package api

import (
	"net/http"
	"slices"
	"strings"
)

const (
	corsMethods = "GET, POST, DELETE, OPTIONS"
	corsHeaders = "Authorization, Content-Type, Content-Encoding, Last-Event-ID, X-Tenant-ID, X-Request-ID, " +
		"Idempotency-Key, Cache-Control, Accept, X-Operator-Key, traceparent"
	corsExposed = "Retry-After, X-Request-ID, X-Cache, X-Stream-Position, X-Stream-Join, ETag"
	corsMaxAge  = "600"
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
