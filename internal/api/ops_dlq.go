package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/letters"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

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

// deadLetters opens the store of a tenant that is served or has some stored.
func (s *Server) deadLetters(r *http.Request, query url.Values) (mq.DeadLetterStore, error) {
	id, err := s.opsOneTenant(query)
	if err != nil {
		return nil, err
	}
	if _, err := s.Settings.Get(id); err != nil {
		if kept, err := s.kept(r.Context(), id); err != nil || !kept {
			return nil, cmp.Or(err, mq.ErrNoDeadLetters)
		}
	}
	return s.Queue.DeadLetters(id)
}

// kept reports whether the queue keeps anything of a tenant. One that does not
// know its tenants is asked for their letters.
func (s *Server) kept(ctx context.Context, id tenant.ID) (bool, error) {
	if s.Tenants == nil {
		return true, nil
	}
	status, err := s.Tenants.TenantStatus(ctx, id)
	return status.Kept, err
}

type deadLetterAnswer struct {
	ID       string          `json:"id"`
	Table    string          `json:"table"`
	Error    string          `json:"error"`
	Code     string          `json:"code"`
	At       time.Time       `json:"at"`
	Received time.Time       `json:"received_at"`
	Row      json.RawMessage `json:"row,omitempty"`
	Raw      []byte          `json:"raw,omitempty"`
	Source   map[string]any  `json:"source"`
}

// opsDeadLetterRows lists parked rows: GET /v1/ops/dlq/rows?table=&limit=&cursor=,
// or shows one: ?id=.
func (s *Server) opsDeadLetterRows(w http.ResponseWriter, r *http.Request, query url.Values) error {
	store, err := s.deadLetters(r, query)
	if err != nil {
		return err
	}
	if id, present, err := one(query, "id"); err != nil || present {
		if err != nil {
			return err
		}
		return s.opsDeadLetter(w, r, store, id)
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
	release, err := s.Answers.reserve(r.Context(), operatorBodies, letterBytes)
	if err != nil {
		return err
	}
	defer release()
	page, err := store.List(r.Context(), table, limit, query.Get("cursor"))
	if err != nil {
		return lettersProblem(err)
	}
	rows := make([]deadLetterAnswer, 0, len(page.Letters))
	for _, letter := range page.Letters {
		rows = append(rows, s.answerLetter(letter))
	}
	return writeJSON(w, http.StatusOK, map[string]any{"rows": rows, "cursor": page.Next})
}

func (s *Server) opsDeadLetter(w http.ResponseWriter, r *http.Request, store mq.DeadLetterStore, id string) error {
	letter, ok, err := store.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if !ok {
		return problem(http.StatusNotFound, letters.CodeGone, "there is no dead letter with this id, or no longer")
	}
	return writeJSON(w, http.StatusOK, map[string]any{"rows": []deadLetterAnswer{s.answerLetter(letter)}, "cursor": ""})
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

// lettersProblem translates what only dead letters meet; other errors are
// returned as they are.
func lettersProblem(err error) error {
	switch {
	case errors.Is(err, mq.ErrBadCursor):
		return problem(http.StatusBadRequest, "query_string.invalid", "the cursor is not of this list").because(err)
	case errors.Is(err, letters.ErrBusy):
		return problem(http.StatusConflict, "dlq.busy", err.Error()).retryable(time.Second)
	}
	return err
}
