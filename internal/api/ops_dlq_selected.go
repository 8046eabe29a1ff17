package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/letters"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
)

const (
	// maxSelected bounds the letters that a selector names.
	maxSelected = 1000
	// defaultReplay is how many letters a replay of all looks at.
	defaultReplay = 10_000
)

// Letters disposes of dead letters and shows them; *letters.Keeper does.
type Letters interface {
	Replay(ctx context.Context, q letters.Replay) (letters.Replayed, error)
	Discard(ctx context.Context, d letters.Discard) (int, error)
	Render(l *mq.DeadLetter) (row []byte, ok bool)
}

// selector says which letters of a table a request means.
type selector struct {
	Table string   `json:"table"`
	IDs   []string `json:"ids"`
	All   bool     `json:"all"`
}

// replaySelector is what a replay takes beside.
type replaySelector struct {
	Table  string   `json:"table"`
	IDs    []string `json:"ids"`
	All    bool     `json:"all"`
	Limit  int      `json:"limit"`
	Cursor string   `json:"cursor"`
	DryRun bool     `json:"dry_run"`
}

// check refuses a selector that selects nothing, or that cannot be meant.
func (s *selector) check() error {
	switch {
	case s.Table == "":
		return problem(http.StatusBadRequest, "table.missing", `name a table: {"table": …}`)
	case len(s.IDs) == 0 && !s.All:
		return badSelector(`select rows: {"ids": […]} or {"all": true}`)
	case len(s.IDs) > 0 && s.All:
		return badSelector("ids and all exclude each other")
	case len(s.IDs) > maxSelected:
		return badSelector(fmt.Sprintf("%d ids, at most %d", len(s.IDs), maxSelected))
	}
	return nil
}

func (s *replaySelector) check() error {
	switch {
	case s.Limit < 1 || s.Limit > letters.MaxReplay:
		return badSelector(fmt.Sprintf("limit must be 1 to %d", letters.MaxReplay))
	case s.Cursor != "" && !s.All:
		return badSelector("cursor goes with all")
	}
	return (&selector{Table: s.Table, IDs: s.IDs, All: s.All}).check()
}

func badSelector(message string) *Problem {
	return problem(http.StatusBadRequest, "dlq.selector_invalid", message)
}

// readSelector reads a selector's document into v and checks it.
func (s *Server) readSelector(w http.ResponseWriter, r *http.Request, v interface{ check() error }) error {
	if err := s.readOperator(w, r, v, "dlq.selector_invalid"); err != nil {
		return err
	}
	return v.check()
}

type replayAnswer struct {
	Replayed  int             `json:"replayed"`
	Failed    int             `json:"failed"`
	Remaining uint64          `json:"remaining"`
	Cursor    string          `json:"cursor"`
	DryRun    bool            `json:"dry_run,omitempty"`
	Failures  []failureAnswer `json:"failures"`
	Truncated bool            `json:"failures_truncated,omitempty"`
}

type failureAnswer struct {
	ID     string `json:"id"`
	Code   string `json:"code"`
	Column string `json:"column,omitempty"`
	Error  string `json:"error"`
}

// opsDeadLetterReplay puts parked rows back into the queue:
// POST /v1/ops/dlq/replay.
func (s *Server) opsDeadLetterReplay(w http.ResponseWriter, r *http.Request, query url.Values) error {
	c, err := s.servedTenant(query)
	if err != nil {
		return err
	}
	selected := replaySelector{Limit: defaultReplay}
	if err := s.readSelector(w, r, &selected); err != nil {
		return err
	}
	ctx := r.Context()
	table, err := s.tableToday(ctx, c, selected.Table, selected.Cursor == "")
	if err != nil {
		return err
	}
	store, err := s.Queue.DeadLetters(c.tenant)
	if err != nil {
		return err
	}
	release, err := s.Answers.reserve(ctx, operatorBodies, letterBytes)
	if err != nil {
		return err
	}
	defer release()
	rules := c.settings.Config.IngestFor(selected.Table)
	result, err := s.Letters.Replay(ctx, letters.Replay{
		Topic: mq.Topic{Tenant: c.tenant, Table: selected.Table}, Store: store, Table: table,
		MissingAsZero: rules.MissingAsZero, CutTimes: rules.Times == settings.TimesTruncate,
		IDs: selected.IDs, Cursor: selected.Cursor, Limit: selected.Limit, DryRun: selected.DryRun,
	})
	answer := answerReplay(result, selected.DryRun)
	left, countErr := remaining(ctx, store, selected.Table)
	answer.Remaining = left
	switch {
	case err != nil:
		return replayProblem(err, answer)
	case countErr != nil:
		return countErr
	}
	return writeJSON(w, http.StatusOK, answer)
}

func answerReplay(result letters.Replayed, dry bool) replayAnswer {
	answer := replayAnswer{
		Replayed: result.Replayed, Failed: result.Failed, Cursor: result.Cursor, DryRun: dry,
		Failures: make([]failureAnswer, 0, len(result.Failures)), Truncated: len(result.Failures) < result.Failed,
	}
	for _, f := range result.Failures {
		answer.Failures = append(answer.Failures, failureAnswer{ID: f.ID, Code: f.Code, Column: f.Column, Error: f.Message})
	}
	return answer
}

// replayProblem is the answer of a replay that was cut short: it says how far
// it came.
func replayProblem(err error, answer replayAnswer) error {
	if own, ok := errors.AsType[*Problem](lettersProblem(err)); ok {
		return own
	}
	var whole *ingest.Error
	if !errors.As(err, &whole) {
		return err
	}
	return problemOf(err).with(map[string]any{
		"replayed": answer.Replayed, "failed": answer.Failed, "remaining": answer.Remaining, "cursor": answer.Cursor, "failures": answer.Failures,
	})
}

func remaining(ctx context.Context, store mq.DeadLetterStore, table string) (uint64, error) {
	counts, err := store.Counts(ctx)
	return counts[table], err
}

// tableToday finds the table as ClickHouse has it now, as far as ClickHouse can
// be asked: else as it was last seen.
func (s *Server) tableToday(ctx context.Context, c *request, name string, look bool) (*schema.Table, error) {
	var failed error
	if look {
		failed = s.Schemas.Refresh(ctx, c.tenant)
	}
	catalogue, loaded := s.Schemas.Catalogue(c.tenant)
	if !loaded {
		return nil, schemaNotLoaded().because(failed)
	}
	if table, ok := catalogue.Table(name); ok {
		return table, nil
	}
	return nil, problem(http.StatusNotFound, "table.unknown", "unknown table: "+name).
		hint("create it in ClickHouse: rows without a table cannot be replayed")
}

// opsDeadLetterDiscard removes parked rows for good: DELETE /v1/ops/dlq/rows.
func (s *Server) opsDeadLetterDiscard(w http.ResponseWriter, r *http.Request, query url.Values) error {
	store, err := s.deadLetters(r, query)
	if err != nil {
		return err
	}
	var selected selector
	if err := s.readSelector(w, r, &selected); err != nil {
		return err
	}
	id, err := s.opsOneTenant(query)
	if err != nil {
		return err
	}
	n, err := s.Letters.Discard(r.Context(), letters.Discard{
		Topic: mq.Topic{Tenant: id, Table: selected.Table}, Store: store, IDs: selected.IDs,
	})
	if err != nil {
		return lettersProblem(err)
	}
	left, err := remaining(r.Context(), store, selected.Table)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"discarded": n, "remaining": left})
}
