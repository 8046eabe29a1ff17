package api

import (
	"context"
	"errors"
	"log/slog"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/stream"
)

// bindSelect resolves a grant's row rule for the caller. A rule that does not
// fit the table is the operator's to hear of: it shows nothing.
func (s *Server) bindSelect(ctx context.Context, c *request, grant *policy.SelectGrant, name string, table *record.Table) *policy.BoundSelect {
	bound := grant.Bind(c.identity.Claims, table)
	s.reportRule(ctx, c, name, "row filter does not fit the table: it shows no row", bound.Fault())
	return bound
}

// reportRule logs a row rule that cannot be applied.
func (s *Server) reportRule(ctx context.Context, c *request, table, message string, fault error) {
	if fault != nil {
		s.Logger.WarnContext(ctx, message, slog.String("tenant", c.tenant.String()), slog.String("table", table),
			slog.String("role", c.identity.Role), slog.Any("error", fault))
	}
}

// streamGrant reads the caller's grant from the current snapshot, each time it
// is asked: a policy edit takes effect on the next row, and so does a change
// of the table's columns.
func (s *Server) streamGrant(ctx context.Context, c *request, table string) func() (stream.Grant, error) {
	var (
		bound   *policy.BoundSelect
		rules   *policy.Policy
		columns *record.Table
	)
	return func() (stream.Grant, error) {
		snapshot, err := s.Settings.Get(c.tenant)
		if err != nil {
			return nil, streamOver(err)
		}
		known := s.columnsOf(c, table)
		if bound != nil && rules == snapshot.Policy && columns == known {
			return bound, nil
		}
		grant, err := c.identity.SelectGrant(snapshot.Policy, table)
		if err != nil {
			return nil, err
		}
		bound, rules, columns = s.bindSelect(ctx, c, grant, table, known), snapshot.Policy, known
		return bound, nil
	}
}

// streamOver is why a stream ends whose tenant is no longer served.
func streamOver(err error) error {
	switch {
	case errors.Is(err, settings.ErrUnknownTenant):
		return &stream.Over{Reason: stream.EndTenantRemoved, Err: err}
	case errors.Is(err, settings.ErrRejected):
		return &stream.Over{Reason: stream.EndTenantRejected, Err: err}
	}
	return err
}

// columnsOf is the table as it was last discovered, nil when it is not there.
func (s *Server) columnsOf(c *request, name string) *record.Table {
	catalogue, loaded := s.Schemas.Catalogue(c.tenant)
	if !loaded {
		return nil
	}
	table, ok := catalogue.Table(name)
	if !ok {
		return nil
	}
	return table.Record
}
