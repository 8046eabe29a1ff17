package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

type tenantAnswer struct {
	Tenant          tenant.ID    `json:"tenant"`
	State           string       `json:"state"`
	SettingsHash    string       `json:"settings_hash,omitempty"`
	SchemaAge       *float64     `json:"schema_age_seconds,omitempty"`
	SchemaError     string       `json:"schema_error,omitempty"`
	Pool            string       `json:"pool,omitempty"`
	Queue           *queueAnswer `json:"queue,omitempty"`
	OldestUnwritten *float64     `json:"oldest_unwritten_age_seconds,omitempty"`
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
	answers := make([]tenantAnswer, 0, len(status.Tenants))
	served := s.Settings.Tenants()
	for _, id := range served {
		answer := s.answerTenant(id, pending)
		queue, open := status.Tenants[id]
		s.addQueue(&answer, queue, open)
		answers = append(answers, answer)
	}
	for id, queue := range status.Tenants {
		if slices.Contains(served, id) {
			continue
		}
		answer := tenantAnswer{Tenant: id, State: "removed"}
		s.addQueue(&answer, queue, true)
		answers = append(answers, answer)
	}
	slices.SortFunc(answers, func(a, b tenantAnswer) int { return slices.Compare([]byte(a.Tenant), []byte(b.Tenant)) })
	return writeJSON(w, http.StatusOK, answers)
}

func (s *Server) answerTenant(id tenant.ID, pending map[tenant.ID]error) tenantAnswer {
	answer := tenantAnswer{Tenant: id, State: "served"}
	if snapshot, err := s.Settings.Get(id); err == nil {
		answer.SettingsHash = snapshot.Hash
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

// opsDeadLetterStats counts parked rows by table: GET /v1/ops/dlq/stats.
func (s *Server) opsDeadLetterStats(w http.ResponseWriter, r *http.Request, query url.Values) error {
	store, err := s.deadLetters(r, query)
	if err != nil {
		return err
	}
	tables, err := store.Counts(r.Context())
	if err != nil {
		return err
	}
	var total uint64
	for _, n := range tables {
		total += n
	}
	if tables == nil {
		tables = map[string]uint64{}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"tables": tables, "total": total})
}

// deadLetters opens the store of a tenant that is served or has a queue.
func (s *Server) deadLetters(r *http.Request, query url.Values) (mq.DeadLetterStore, error) {
	id, _, err := opsTenant(query)
	if err != nil {
		return nil, err
	}
	if _, err := s.Settings.Get(id); err != nil {
		if _, kept := s.Queue.Status(r.Context()).Tenants[id]; !kept {
			return nil, mq.ErrNoDeadLetters
		}
	}
	return s.Queue.DeadLetters(id)
}

type deadLetterAnswer struct {
	ID       string         `json:"id"`
	Table    string         `json:"table"`
	Error    string         `json:"error"`
	Code     string         `json:"code"`
	At       time.Time      `json:"at"`
	Received time.Time      `json:"received_at"`
	Row      rawJSON        `json:"row,omitempty"`
	Raw      []byte         `json:"raw,omitempty"`
	Source   map[string]any `json:"source"`
}

// opsDeadLetterRows lists parked rows: GET /v1/ops/dlq/rows?table=&limit=&cursor=.
func (s *Server) opsDeadLetterRows(w http.ResponseWriter, r *http.Request, query url.Values) error {
	store, err := s.deadLetters(r, query)
	if err != nil {
		return err
	}
	table, _, err := one(query, "table")
	if err != nil {
		return err
	}
	if table == "" {
		return problem(http.StatusBadRequest, "table.missing", "name a table: ?table=<table>")
	}
	limit, err := limitParameter(query)
	if err != nil {
		return err
	}
	page, err := store.List(r.Context(), table, limit, query.Get("cursor"))
	if err != nil {
		return err
	}
	rows := make([]deadLetterAnswer, 0, len(page.Letters))
	for _, letter := range page.Letters {
		rows = append(rows, answerLetter(letter))
	}
	return writeJSON(w, http.StatusOK, map[string]any{"rows": rows, "cursor": page.Next})
}

func limitParameter(query url.Values) (int, error) {
	const byDefault, most = 100, 1000
	text, present, err := one(query, "limit")
	if err != nil || !present {
		return byDefault, err
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > most {
		return 0, problem(http.StatusBadRequest, "query_string.invalid", "limit must be 1 to 1000")
	}
	return limit, nil
}
