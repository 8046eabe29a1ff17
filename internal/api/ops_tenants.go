package api

import (
	"context"
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
	*queueFigures
	Budget int64  `json:"budget_bytes"`
	Error  string `json:"error,omitempty"`
	// Damages is what was found damaged on disk.
	Damages []mq.Damage `json:"damages,omitempty"`
}

// queueFigures are unknown for a queue that cannot be opened.
type queueFigures struct {
	Chunks      uint64 `json:"chunks"`
	Pending     uint64 `json:"pending_chunks"`
	Bytes       uint64 `json:"bytes"`
	DeadLetters uint64 `json:"dead_letters"`
}

// opsTenants shows each tenant's state: GET /v1/ops/tenants.
func (s *Server) opsTenants(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	pending := s.Schemas.Pending()
	held := s.Settings.Tenants()
	removed, err := s.removedTenants(r.Context(), held)
	if err != nil {
		return err
	}
	answers := make([]tenantAnswer, 0, len(held)+len(removed))
	for _, id := range held {
		answers = append(answers, s.answerTenant(id, pending))
	}
	for _, id := range removed {
		answers = append(answers, tenantAnswer{Tenant: id, State: stateRemoved})
	}
	for i := range answers {
		if err := s.addQueue(r.Context(), &answers[i]); err != nil {
			return err
		}
	}
	slices.SortFunc(answers, func(a, b tenantAnswer) int { return strings.Compare(string(a.Tenant), string(b.Tenant)) })
	return writeJSON(w, http.StatusOK, answers)
}

// queuePage is how many tenants the queue is asked for at a time.
const queuePage = 1000

// removedTenants lists those of the queue that are not held, which is sorted.
func (s *Server) removedTenants(ctx context.Context, held []tenant.ID) (removed []tenant.ID, err error) {
	if s.Tenants == nil {
		return nil, nil
	}
	for after := tenant.ID(""); ; {
		page, err := s.Tenants.Tenants(ctx, after, queuePage)
		if err != nil {
			return nil, err
		}
		for _, id := range page {
			if _, found := slices.BinarySearch(held, id); !found {
				removed = append(removed, id)
			}
		}
		if len(page) < queuePage {
			return removed, nil
		}
		after = page[len(page)-1]
	}
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

// addQueue adds what the queue says of the tenant, if it knows it.
func (s *Server) addQueue(ctx context.Context, answer *tenantAnswer) error {
	if s.Tenants == nil {
		return nil
	}
	status, err := s.Tenants.TenantStatus(ctx, answer.Tenant)
	if err != nil || status == (mq.TenantStatus{}) {
		return err
	}
	answer.Queue = &queueAnswer{Budget: status.Budget, Damages: s.damages(answer.Tenant)}
	if status.Err != nil {
		answer.Queue.Error = status.Err.Error()
	} else {
		answer.Queue.queueFigures = &queueFigures{
			Chunks: status.Chunks, Pending: status.Pending, Bytes: status.Bytes, DeadLetters: status.DeadLetters,
		}
	}
	if !status.OldestPending.IsZero() {
		answer.OldestUnwritten = seconds(s.Now().Sub(status.OldestPending))
	}
	return nil
}

// damages lists what was found damaged of a tenant, or may be.
func (s *Server) damages(id tenant.ID) []mq.Damage {
	if s.Faults == nil {
		return nil
	}
	return slices.DeleteFunc(s.Faults.Damages(), func(d mq.Damage) bool { return d.Tenant != id && d.Tenant != "" })
}

func seconds(d time.Duration) *float64 {
	value := d.Seconds()
	return &value
}
