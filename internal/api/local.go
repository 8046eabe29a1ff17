package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// localOnly refuses what the web pages of others make a browser of this machine
// ask: by their origin, or by a name of their own that leads here. It stands
// before the answers to preflights.
func (s *Server) localOnly(next http.Handler) http.Handler {
	refuse := s.route(func(http.ResponseWriter, *http.Request) error {
		return problem(http.StatusForbidden, "origin.not_local", "this server answers requests of this machine only").
			hint("open it as http://localhost; a server for others is started with wavehouse serve")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, origin := range r.Header.Values("Origin") {
			page, err := url.Parse(origin)
			if err != nil || !isLocal(page.Host) {
				refuse(w, r)
				return
			}
		}
		if !isLocal(r.Host) {
			refuse(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a host, with or without a port, is this machine by
// itself, whatever a resolver says.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
