package settings

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Reload reads the directory again: the whole of it, or, in a nested one, the
// folder of one tenant that is held and nothing else. It waits for its turn.
//
// A flat directory with an error changes nothing. In a nested one an error about
// the root changes nothing, and a tenant whose folder has an error is rejected
// and has no snapshot, whatever it had before. A folder that is gone when it
// alone is read rejects its tenant too; only a reading of the whole directory
// makes a tenant unknown.
func (r *Registry) Reload(ctx context.Context, id *tenant.ID) ReloadResult {
	if id != nil && !r.holds(*id) {
		return ReloadResult{Err: ErrUnknownTenant}
	}
	return r.reload(ctx, id, true)
}

func (r *Registry) holds(id tenant.ID) bool {
	_, held := (*r.tenants.Load())[id]
	return held
}

// reload judges what is in the directory. asked is false for the watcher, to
// which unchanged content is nothing to speak of.
func (r *Registry) reload(ctx context.Context, id *tenant.ID, asked bool) ReloadResult {
	select {
	case <-ctx.Done():
		return ReloadResult{Err: ctx.Err()}
	case <-r.turn:
	}
	defer func() { r.turn <- struct{}{} }()
	if err := ctx.Err(); err != nil {
		return ReloadResult{Err: err} // both were ready, and the turn was picked
	}
	if id != nil && r.Nested() {
		return r.reloadFolder(ctx, *id)
	}
	return r.reloadAll(ctx, asked)
}

// reloadAll makes the registry what the directory is.
func (r *Registry) reloadAll(ctx context.Context, asked bool) ReloadResult {
	held := *r.tenants.Load()
	r.directory.shared.keep(held)
	found := r.directory.read(held)
	found.tellApart(r.options.keys())
	if unchanged := r.noted(found); unchanged && !asked {
		return ReloadResult{Adopted: true}
	}
	findings := found.findings()
	r.log(slices.Concat(found.faults, found.skipped))
	if len(found.faults) == 0 {
		r.logChanged(held, found.states)
	}
	if len(found.faults) > 0 || !r.Nested() && servedOf(found.states) == 0 {
		r.metrics.count(r.options.Now(), resultRefused, false)
		r.options.Logger.ErrorContext(ctx, "settings reload refused; the settings before it are kept")
		return ReloadResult{Findings: findings, Refused: refusedOf(found.states)}
	}
	r.adopt(ctx, found.states, findings)
	return resultOfAll(held, found.states, findings)
}

// resultOfAll tells what a reading of the whole made of each tenant.
func resultOfAll(before, now map[tenant.ID]state, findings []Finding) ReloadResult {
	result := ReloadResult{Adopted: !HasErrors(findings), Findings: findings, Refused: refusedOf(now)}
	for id, s := range now {
		if s.snapshot != nil && s.snapshot != before[id].snapshot {
			result.Changed = append(result.Changed, id)
		}
	}
	for id := range before {
		if _, held := now[id]; !held {
			result.Removed = append(result.Removed, id)
		}
	}
	slices.Sort(result.Changed)
	slices.Sort(result.Removed)
	return result
}

func refusedOf(states map[tenant.ID]state) (refused []tenant.ID) {
	for id, s := range states {
		if s.snapshot == nil {
			refused = append(refused, id)
		}
	}
	slices.Sort(refused)
	return refused
}

// noted keeps what later readings of the whole are compared with, and reports
// whether a flat directory is what it was at the one before.
func (r *Registry) noted(found reading) (unchanged bool) {
	r.incomplete = len(found.faults)+len(found.skipped) > 0
	r.stamp.Store(&found.stamp)
	outcome := found.states[tenant.Default].outcome
	unchanged = !r.Nested() && outcome == r.last
	r.last = outcome
	return unchanged
}

// reloadFolder judges the folder of one tenant.
func (r *Registry) reloadFolder(ctx context.Context, id tenant.ID) ReloadResult {
	held := *r.tenants.Load()
	before, known := held[id]
	if !known {
		return ReloadResult{Err: ErrUnknownTenant} // it left while this waited
	}
	r.directory.shared.keep(held)
	twin := caseTwins(slices.Sorted(maps.Keys(held)))[id]
	now, _ := r.directory.folder(id, twin, before)
	states := maps.Clone(held)
	states[id] = now
	tellApart(states, r.options.keys(), &id)
	now = states[id]
	r.logChanged(map[tenant.ID]state{id: before}, map[tenant.ID]state{id: now})
	r.adopt(ctx, states, now.findings)
	result := ReloadResult{Adopted: now.snapshot != nil, Findings: now.findings}
	switch {
	case now.snapshot == nil:
		result.Refused = []tenant.ID{id}
	case now.snapshot != before.snapshot:
		result.Changed = []tenant.ID{id}
	}
	return result
}

// adopt makes states the current ones and tells everyone, in the order of
// OnAdopt. findings are those of what was read.
func (r *Registry) adopt(ctx context.Context, states map[tenant.ID]state, findings []Finding) {
	before := *r.tenants.Load()
	r.tenants.Store(&states)
	result := resultOf(findings)
	if result == resultAdopted && maps.EqualFunc(before, states, sameSnapshot) {
		result = resultUnchanged
	}
	r.metrics.follow(states)
	r.metrics.count(r.options.Now(), result, r.complete())
	r.logAdopted(before, states)
	ctx = context.WithoutCancel(ctx)
	for _, f := range r.onAdopt {
		f(ctx, r.Snapshots())
	}
}

func sameSnapshot(a, b state) bool { return a.snapshot == b.snapshot }

// logChanged logs the findings of tenants that were judged anew, and those of
// tenants that are still rejected.
func (r *Registry) logChanged(before, now map[tenant.ID]state) {
	for _, id := range slices.Sorted(maps.Keys(now)) {
		if s := now[id]; s.snapshot == nil || s.snapshot != before[id].snapshot {
			r.log(s.findings, "tenant", id)
		}
	}
}

// logAdopted says for each tenant what became of it.
func (r *Registry) logAdopted(before, now map[tenant.ID]state) {
	for _, id := range slices.Sorted(maps.Keys(now)) {
		old, held := before[id]
		switch s := now[id].snapshot; {
		case s == nil && (!held || old.snapshot != nil):
			r.options.Logger.Error("settings rejected; the tenant is not served", "tenant", id)
		case s != nil && s != old.snapshot:
			r.options.Logger.Info("settings adopted", "tenant", id, "hash", s.Hash)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if _, held := now[id]; !held {
			r.options.Logger.Info("settings removed; the tenant is unknown from now on", "tenant", id)
		}
	}
}

// log writes findings with the attributes of what they are about.
func (r *Registry) log(findings []Finding, about ...any) {
	for _, f := range findings {
		level := slog.LevelWarn
		if f.Severity == SeverityError {
			level = slog.LevelError
		}
		r.options.Logger.Log(context.Background(), level, "settings: "+f.Message,
			slices.Concat(about, []any{"file", f.File, "path", f.Path, "line", f.Line})...)
	}
}
