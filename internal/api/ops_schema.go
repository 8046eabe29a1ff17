package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

type tableAnswer struct {
	Name    string         `json:"name"`
	Engine  string         `json:"engine"`
	Columns []columnAnswer `json:"columns"`
}

type columnAnswer struct {
	Name              string             `json:"name"`
	Type              string             `json:"type"`
	Position          int                `json:"position"`
	IsNullable        bool               `json:"is_nullable"`
	DefaultKind       record.DefaultKind `json:"default_kind,omitempty"`
	DefaultExpression string             `json:"default_expression,omitempty"`
	Comment           string             `json:"comment,omitempty"`
}

// opsSchema lists the discovered tables: GET /v1/ops/schema[?table=].
func (s *Server) opsSchema(w http.ResponseWriter, _ *http.Request, query url.Values) error {
	c, err := s.servedTenant(query)
	if err != nil {
		return err
	}
	catalogue, loaded := s.Schemas.Catalogue(c.tenant)
	if !loaded {
		return schemaNotLoaded()
	}
	name, present, err := one(query, "table")
	if err != nil {
		return err
	}
	if present {
		table, ok := catalogue.Table(name)
		if !ok {
			return problem(http.StatusNotFound, "table.unknown", "unknown table: "+name)
		}
		return writeJSON(w, http.StatusOK, answerTable(table))
	}
	answers := make([]tableAnswer, 0, len(catalogue.Tables()))
	for _, table := range catalogue.Tables() {
		answers = append(answers, answerTable(table))
	}
	return writeJSON(w, http.StatusOK, answers)
}

func answerTable(table *schema.Table) tableAnswer {
	answer := tableAnswer{Name: table.Name, Engine: table.Engine, Columns: make([]columnAnswer, 0, len(table.Columns))}
	for _, c := range table.Columns {
		answer.Columns = append(answer.Columns, columnAnswer{
			Name: c.Name, Type: c.Type, Position: c.Position,
			IsNullable:  strings.HasPrefix(c.Type, "Nullable(") || strings.HasPrefix(c.Type, "LowCardinality(Nullable("),
			DefaultKind: c.DefaultKind, DefaultExpression: c.DefaultExpression, Comment: c.Comment,
		})
	}
	return answer
}

// opsSchemaRefresh discovers the tables now: POST /v1/ops/schema/refresh.
func (s *Server) opsSchemaRefresh(w http.ResponseWriter, r *http.Request, query url.Values) error {
	c, err := s.servedTenant(query)
	if err != nil {
		return err
	}
	if err := s.Schemas.Refresh(r.Context(), c.tenant); err != nil {
		return undiscovered(err)
	}
	return s.opsSchema(w, r, url.Values{"tenant": {c.tenant.String()}})
}

// undiscovered is the answer when ClickHouse did not tell its tables.
func undiscovered(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return problem(http.StatusServiceUnavailable, "clickhouse.unavailable", "ClickHouse did not tell its tables").
		retryable(retrySchema).because(err)
}
