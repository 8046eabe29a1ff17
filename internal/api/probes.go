package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// pingTimeout bounds how long readiness waits for ClickHouse.
const pingTimeout = time.Second

// livez answers 503 until one tenant's tables are known, then 200 for the
// life of the process: a ClickHouse that goes away later is no reason to
// restart a process that holds a queue.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) error {
	if s.Schemas.FirstLoaded() {
		return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}
	return degraded(w, s.pendingSchemas())
}

func (s *Server) pendingSchemas() string {
	pending := s.Schemas.Pending()
	if len(pending) == 0 {
		return "no tenant is served"
	}
	causes := make([]string, 0, len(pending))
	for id, err := range pending {
		cause := "waiting for the first schema discovery"
		if err != nil {
			cause = "schema discovery: " + err.Error()
		}
		causes = append(causes, fmt.Sprintf("tenant %s: %s", id, cause))
	}
	slices.Sort(causes)
	return strings.Join(causes, "; ")
}

// readyz answers 200 when tables are known, a pool answers and the queue takes
// rows.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if s.stopping.Load() {
		return degraded(w, "the server is stopping")
	}
	if !s.Schemas.FirstLoaded() {
		return degraded(w, s.pendingSchemas())
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	if full := s.Queue.Status(ctx).Full; full != nil {
		return degraded(w, "queue: "+full.Error())
	}
	if failures := failedPools(s.Pools.Ping(ctx)); failures != "" {
		return degraded(w, failures)
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// failedPools names every pool when none answered, and is empty when one did.
func failedPools(pings map[string]error) string {
	if len(pings) == 0 {
		return "no ClickHouse pool"
	}
	failures := make([]string, 0, len(pings))
	for name, err := range pings {
		if err == nil {
			return ""
		}
		failures = append(failures, fmt.Sprintf("clickhouse pool %s: %v", name, err))
	}
	slices.Sort(failures)
	return strings.Join(failures, "; ")
}

func degraded(w http.ResponseWriter, cause string) error {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", "1")
	return writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "degraded", "error": cause})
}

// health is livez for callers from outside: a status and no body.
func (s *Server) health(w http.ResponseWriter, _ *http.Request, _ *call) error {
	status := http.StatusServiceUnavailable
	if s.Schemas.FirstLoaded() {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	return nil
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, s.Build)
}
