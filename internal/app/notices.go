package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/settings"
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
		a.notices.Answer(a.progress)
	}
}

// progressTimeout bounds a question to a shared queue before an answer.
const progressTimeout = 500 * time.Millisecond

// progress is the worker's. In a shared queue a chunk that a former owner of the shard
// left comes again behind newer ones: until all of them are done with, the table is
// written up to the queue's floor alone.
func (a *App) progress(t mq.Topic) (notice.Progress, bool) {
	p, ours := a.worker.Progress(t)
	queue, floors := a.queue.(mq.Floors)
	if !ours || !a.shared || !floors {
		return p, ours
	}
	ctx, cancel := context.WithTimeout(context.Background(), progressTimeout)
	defer cancel()
	floor, inherited, err := queue.Floor(ctx, t)
	if order, same := floor.Compare(inherited); err != nil || !same || order < 0 {
		p.Frontier, p.Since, p.Quiet = floor, time.Time{}, false
	}
	return p, true
}

// shards are those of a shared queue that this process has.
func (a *App) shards() []string {
	if !a.shared {
		return nil
	}
	return a.worker.Shards()
}

// generation is the same for the same settings of all tenants.
func generation(snapshots map[tenant.ID]*settings.Snapshot) string {
	sum := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(snapshots)) {
		_, _ = fmt.Fprintf(sum, "%s %s\n", id, snapshots[id].Hash) // never fails
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Wrote implements api.Writes: it tells all processes, and returns once this one
// has heard it.
func (a *App) Wrote(ctx context.Context, id tenant.ID, changed bool) {
	a.notices.Tell(notice.Statement{Tenant: id, Changed: changed})
	if err := a.notices.Flush(ctx); err != nil {
		a.logger.WarnContext(ctx, "a statement is answered before what was cached is dropped", "tenant", id, "error", err)
	}
}
