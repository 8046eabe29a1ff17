package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// States of a tenant.
const (
	stateServed   = "served"
	stateRejected = "rejected"
	stateRemoved  = "removed" // it has no folder, and its queue is kept
)

type tenantAnswer struct {
	Tenant          tenant.ID          `json:"tenant"`
	State           string             `json:"state"`
	Findings        []settings.Finding `json:"findings,omitempty"`
	Failures        []AdoptionFailure  `json:"failed_steps,omitempty"`
	SettingsHash    string             `json:"settings_hash,omitempty"`
	SchemaAge       *float64           `json:"schema_age_seconds,omitempty"`
	SchemaError     string             `json:"schema_error,omitempty"`
	Pool            string             `json:"pool,omitempty"`
	Queue           *queueAnswer       `json:"queue,omitempty"`
	OldestUnwritten *float64           `json:"oldest_unwritten_age_seconds,omitempty"`
}

type queueAnswer struct {
	Chunks      uint64 `json:"chunks"`
	Pending     uint64 `json:"pending_chunks"`
	Bytes       uint64 `json:"bytes"`
	Budget      int64  `json:"budget_bytes"`
	DeadLetters uint64 `json:"dead_letters"`
	Error       string `json:"error,omitempty"`
}

// opsTenants shows each tenant's state: GET /v1/ops/tenants.
func (s *Server) opsTenants(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	status := s.Queue.Status(r.Context())
	pending := s.Schemas.Pending()
	held := s.Settings.Tenants()
	answers := make([]tenantAnswer, 0, len(held))
	for _, id := range held {
		answer := s.answerTenant(id, pending)
		queue, open := status.Tenants[id]
		s.addQueue(&answer, queue, open)
		answers = append(answers, answer)
	}
	for id, queue := range status.Tenants {
		if _, found := slices.BinarySearch(held, id); found || !queue.Kept {
			continue
		}
		answer := tenantAnswer{Tenant: id, State: stateRemoved}
		s.addQueue(&answer, queue, true)
		answers = append(answers, answer)
	}
	slices.SortFunc(answers, func(a, b tenantAnswer) int { return strings.Compare(string(a.Tenant), string(b.Tenant)) })
	return writeJSON(w, http.StatusOK, answers)
}

func (s *Server) answerTenant(id tenant.ID, pending map[tenant.ID]error) tenantAnswer {
	snapshot, err := s.Settings.Get(id)
	if err != nil {
		return tenantAnswer{Tenant: id, State: stateRejected, Findings: s.Settings.Findings(id)}
	}
	answer := tenantAnswer{Tenant: id, State: stateServed, SettingsHash: snapshot.Hash}
	if s.Adoptions != nil {
		answer.Failures = s.Adoptions.AdoptionFailures(id)
	}
	if catalogue, loaded := s.Schemas.Catalogue(id); loaded {
		answer.SchemaAge = seconds(s.Now().Sub(catalogue.LoadedAt))
	}
	if err := pending[id]; err != nil {
		answer.SchemaError = err.Error()
	}
	if pool, err := s.Pools.Get(id); err == nil {
		answer.Pool = pool.Name()
	}
	return answer
}

func (s *Server) addQueue(answer *tenantAnswer, status mq.TenantStatus, open bool) {
	if !open {
		return
	}
	answer.Queue = &queueAnswer{
		Chunks: status.Chunks, Pending: status.Pending, Bytes: status.Bytes,
		Budget: status.Budget, DeadLetters: status.DeadLetters,
	}
	if status.Err != nil {
		answer.Queue.Error = status.Err.Error()
	}
	if !status.OldestPending.IsZero() {
		answer.OldestUnwritten = seconds(s.Now().Sub(status.OldestPending))
	}
}

func seconds(d time.Duration) *float64 {
	value := d.Seconds()
	return &value
}
