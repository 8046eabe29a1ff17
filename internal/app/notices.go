package app

import (
	"context"

	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Wrote implements api.Writes: it tells all processes, and returns once this one
// has heard it.
func (a *App) Wrote(ctx context.Context, id tenant.ID, changed bool) {
	a.notices.Tell(notice.Statement{Tenant: id, Changed: changed})
	if err := a.notices.Flush(ctx); err != nil {
		a.logger.WarnContext(ctx, "a statement is answered before what was cached is dropped", "tenant", id, "error", err)
	}
}
