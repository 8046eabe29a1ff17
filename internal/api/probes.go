package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// pingTimeout bounds how long readiness waits for ClickHouse.
	pingTimeout = time.Second
	// maxCauses bounds the tenants or pools that a probe's answer names.
	maxCauses = 100
)

type probeAnswer struct {
	Status string `json:"status"`
	// Error is why it is not ok, Warnings what single tenants suffer from.
	Error    string   `json:"error,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// probe answers 503 while there is a cause, which is told or not, as are
// warnings; nil has none.
func probe(cause func(context.Context) string, warnings func() []string, told bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		answer := probeAnswer{Status: "ok"}
		if told && warnings != nil {
			answer.Warnings = warnings()
		}
		why := cause(r.Context())
		if why == "" {
			return writeJSON(w, http.StatusOK, answer)
		}
		answer.Status = "degraded"
		if told {
			answer.Error = why
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Retry-After", "1")
		return writeJSON(w, http.StatusServiceUnavailable, answer)
	}
}

// notAlive names a cause until one tenant's tables are known, and then none for
// the life of the process: a ClickHouse that goes away later is no reason to
// restart a process that holds a queue.
func (s *Server) notAlive(context.Context) string {
	if s.Schemas.FirstLoaded() {
		return ""
	}
	return s.pendingSchemas()
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
	return joinCauses(causes)
}

func joinCauses(causes []string) string { return strings.Join(atMost(causes), "; ") }

// atMost sorts causes and leaves out those that are too many.
func atMost(causes []string) []string {
	slices.Sort(causes)
	if more := len(causes) - maxCauses; more > 0 {
		causes = append(causes[:maxCauses], fmt.Sprintf("and %d more", more))
	}
	return causes
}

// notReady names no cause when tables are known, a pool answers and the queue
// takes rows.
func (s *Server) notReady(ctx context.Context) string {
	if s.stopping.Load() {
		return "the server is stopping"
	}
	if cause := s.notAlive(ctx); cause != "" {
		return cause
	}
	if full := s.Queue.Full(); full != nil {
		return "queue: " + full.Error()
	}
	if failures := s.Pools.Probe(ctx, pingTimeout); failures != nil {
		return failedPools(failures)
	}
	return ""
}

// faults tells what is wrong with single tenants' queues, or with what can be done
// without, which is no reason to send anybody elsewhere.
func (s *Server) faults() (warnings []string) {
	if s.Advice != nil {
		warnings = s.Advice()
	}
	if s.Faults == nil {
		return warnings
	}
	for id, err := range s.Faults.Unavailable() {
		warnings = append(warnings, fmt.Sprintf("the queue of tenant %s cannot be opened: %v", id, err))
	}
	for _, d := range s.Faults.Damages() {
		warnings = append(warnings, d.String())
	}
	return atMost(warnings)
}

// failedPools names every pool that did not answer.
func failedPools(failures map[string]error) string {
	if len(failures) == 0 {
		return "no ClickHouse pool"
	}
	causes := make([]string, 0, len(failures))
	for name, err := range failures {
		causes = append(causes, fmt.Sprintf("clickhouse pool %s: %v", name, err))
	}
	return joinCauses(causes)
}

// health is livez for callers from outside: a status and no body.
func (s *Server) health(w http.ResponseWriter, _ *http.Request, _ *request) error {
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
