package api

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/pipes/scope"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// asCaller makes of the pipe's statement the one that sees each table through the
// caller's grant on it.
func (s *Server) asCaller(ctx context.Context, c *request, pipe *pipes.Pipe, statement *pipes.Statement, q *read) error {
	catalogue, loaded := s.Schemas.Catalogue(c.tenant)
	if !loaded {
		return schemaNotLoaded()
	}
	if s.Lineage == nil {
		return s.pipeDenied(ctx, c, pipe, errNoLineage)
	}
	narrowed, err := scope.Narrow(ctx, q.pool, s.Lineage, statement, func(name string) (*schema.Table, *policy.BoundSelect, error) {
		table, ok := catalogue.Table(name)
		if !ok {
			return nil, nil, nil
		}
		grant, err := c.identity.SelectGrant(c.settings.Policy, name)
		if err != nil {
			return nil, nil, err
		}
		return table, s.bindSelect(ctx, c, grant, name, table.Record), nil
	})
	if err != nil {
		return s.pipeDenied(ctx, c, pipe, err)
	}
	params := maps.Clone(q.request.Params)
	maps.Copy(params, narrowed.Params)
	maps.Copy(q.request.Settings, narrowed.Settings)
	q.request.SQL, q.request.Params, q.request.External = narrowed.SQL, params, narrowed.External
	if narrowed.Cap.By != "" {
		q.rows = &rowCap{Cap: narrowed.Cap, format: q.as.format, countSQL: narrowed.CountSQL}
		if q.rows.cuts() {
			q.request.SQL = narrowed.Ahead()
		}
	}
	q.grant += " " + narrowed.Fingerprint
	q.verify = func(ctx context.Context, request clickhouse.Request) error {
		return s.pipeDenied(ctx, c, pipe, narrowed.Verify(ctx, q.pool, request))
	}
	return nil
}

// errNoLineage: nobody can say what a statement reads.
var errNoLineage = errors.New("what a pipe reads cannot be told here")

// pipeDenied is what a caller is told who may not see what the pipe reads: which
// of it, and whether it is there, is for the operator.
func (s *Server) pipeDenied(ctx context.Context, c *request, pipe *pipes.Pipe, err error) error {
	var denied *scope.Denied
	if !errors.As(err, &denied) && !errors.Is(err, errNoLineage) {
		return err
	}
	s.Logger.WarnContext(ctx, "a pipe was refused to a caller through whose grants it is seen", slog.String("tenant", c.tenant.String()),
		slog.String("pipe", pipe.Name()), slog.String("role", c.identity.Role), slog.String("reason", err.Error()))
	p := problem(http.StatusForbidden, "pipe.not_allowed", "this pipe reads what this role may not read, or in a way that the role's policies cannot be applied to")
	if c.identity.TokenErr != nil {
		return c.identity.Deny(p)
	}
	return p
}
