package app

import (
	"context"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// hear has those listen, and answer, whose work follows from what is told.
func (a *App) hear() {
	if a.config.HasRole(config.RoleAPI) {
		// In this order: who waits for its rows finds them wherever it looks.
		a.notices.Listen(a.results.told)
		a.notices.Listen(a.watches.Told)
	}
	if a.config.HasRole(config.RoleIngest) {
		a.notices.Answer(a.worker.Progress)
	}
}

// Wrote implements api.Writes: it tells all processes, and returns once this one
// has heard it.
func (a *App) Wrote(ctx context.Context, id tenant.ID, changed bool) {
	a.notices.Tell(notice.Statement{Tenant: id, Changed: changed})
	if err := a.notices.Flush(ctx); err != nil {
		a.logger.WarnContext(ctx, "a statement is answered before what was cached is dropped", "tenant", id, "error", err)
	}
}
