package app

import (
	"context"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const stepDedupe = "dedupe_store"

// adoptDedupe keeps the store of seen ids open while a tenant needs it. That it
// cannot be opened is a failure of the tenants that do, and of no others.
func (a *App) adoptDedupe(ctx context.Context, snapshots map[tenant.ID]*settings.Snapshot, failures *failures) {
	var need []tenant.ID
	for id, snapshot := range snapshots {
		if snapshot.Config.RemembersIDs() {
			need = append(need, id)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, budgetTimeout) // opening it waits for room on the disk
	defer cancel()
	if a.idBudgets != nil {
		a.idBudgets.SetBudgets(idBudgets(snapshots))
	}
	err := a.dedupe.Want(ctx, len(need) > 0)
	if err == nil {
		return
	}
	for _, id := range need {
		failures.add(id, stepDedupe, "cannot open the store of the tenant's seen ids", err)
	}
}

// warnOfRetentions tells of tenants whose ids are forgotten while a shared queue, whose
// window is its operator's, still drops a message as a duplicate.
func (a *App) warnOfRetentions() {
	if !a.shared {
		return
	}
	window := a.queue.DuplicateWindow()
	for id, snapshot := range a.registry.Snapshots() {
		if d := snapshot.Config.Dedupe; d.Enabled && d.Retention > 0 && d.Retention < window {
			a.logger.Warn("dedupe.retention is shorter than the queue's duplicate window: a record that is sent again between the two is taken for new and dropped by the queue",
				"tenant", id, "retention", d.Retention, "duplicate_window", window)
		}
	}
}

// idBudgets are what the ids of each tenant may take.
func idBudgets(snapshots map[tenant.ID]*settings.Snapshot) map[tenant.ID]dedupe.Budget {
	budgets := make(map[tenant.ID]dedupe.Budget, len(snapshots))
	for id, snapshot := range snapshots {
		d := snapshot.Config.Dedupe
		budgets[id] = dedupe.Budget{Bytes: d.MaxBytes, Forget: d.WhenFull == settings.DedupeForget}
	}
	return budgets
}
