package settings

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Reasons for which a tenant has no snapshot.
var (
	// ErrUnknownTenant: the directory holds no such tenant.
	ErrUnknownTenant = errors.New("unknown tenant")
	// ErrRejected: the tenant's settings were refused and it is not served.
	ErrRejected = errors.New("the tenant's settings were rejected")
)

// Options of a Registry. The zero value works.
type Options struct {
	Logger  *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil registers nothing
	Now     func() time.Time      // nil is time.Now
	// Poll is how often a flat directory is looked at, without reading its
	// files; 0 is 250 ms.
	Poll time.Duration
	// FoldCase says that the file system on which tenants' names become file
	// names takes "A" and "a" for the same. In a nested directory folders whose
	// names differ only by case are then rejected, each of them.
	FoldCase bool
	// Keys is asked before each judgement of a nested directory; tenants that
	// take each other's tokens are rejected by it. Nil takes that for good.
	Keys func() TokenKey
}

func (o Options) keys() TokenKey {
	if o.Keys == nil {
		return nil
	}
	return o.Keys()
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Poll == 0 {
		o.Poll = 250 * time.Millisecond
	}
	return o
}

// AdoptFunc is told of the snapshots that hold from now on, one for each served
// tenant. A tenant whose files did not change keeps its *Snapshot, so that the
// callee can tell from the pointer what there is to do. The map is the callee's
// own. The context outlives the request that asked for the reload.
type AdoptFunc func(context.Context, map[tenant.ID]*Snapshot)

// ReloadResult is the answer to a reload.
type ReloadResult struct {
	// Adopted: what was read is what is served. It is false too when a nested
	// directory was adopted in part.
	Adopted bool
	// Changed are the tenants that are served with other settings than before,
	// Refused those whose folder is not served as it is, Removed those that have
	// none any more; each in order.
	Changed, Refused, Removed []tenant.ID
	// Findings are those of what was read, led by the folder in a nested
	// directory. They are shared and must not be changed.
	Findings []Finding
	// Err is ErrUnknownTenant when no such tenant is held, or the context's
	// when it ended before the reload began.
	Err error
}

// Registry owns every tenant's current snapshot and every reload. Its methods
// may be called by many goroutines.
type Registry struct {
	// Fixed after New.
	directory directory
	options   Options
	metrics   *metrics
	onAdopt   []AdoptFunc

	// tenants is replaced whole, never changed.
	tenants atomic.Pointer[map[tenant.ID]state]

	// turn holds one token, which a reload takes: they go one after the other.
	turn chan struct{}
	// Guarded by turn.
	last string // flat: outcome of the content that was judged last
	// incomplete: not all of what stood in the directory at the last reading of
	// the whole is served, or could be a tenant.
	incomplete bool
	// stamp is that of the last reading of a flat directory, for the poll.
	stamp atomic.Pointer[string]
}

// NewRegistry reads the directory and adopts it. It is refused with a
// *FindingsError when it would serve no tenant, and when there is an error about
// its root.
func NewRegistry(dir string, o Options) (*Registry, error) {
	o = o.withDefaults()
	r := &Registry{options: o, turn: make(chan struct{}, 1)}
	r.directory = directory{path: dir, foldCase: o.FoldCase, shared: &shared{}}
	found := r.directory.read(nil)
	found.tellApart(o.keys())
	findings := found.findings()
	if len(found.faults) > 0 || servedOf(found.states) == 0 {
		return nil, &FindingsError{Findings: findings}
	}
	r.directory.shape = found.shape
	r.noted(found)
	r.tenants.Store(&found.states)
	r.metrics = newMetrics(o.Metrics, r.Snapshots)
	r.metrics.follow(found.states)
	r.metrics.count(o.Now(), resultOf(findings), r.complete())
	r.log(found.skipped)
	r.logChanged(nil, found.states)
	r.turn <- struct{}{}
	return r, nil
}

// OnAdopt adds a function that is called after each adoption that follows, in
// the order of adding, before the reload is answered. It is called by an asked
// reload of unchanged settings too, so that steps that failed are tried again.
// Add before Run and Reload; the snapshots of the start are in Snapshots.
func (r *Registry) OnAdopt(f AdoptFunc) { r.onAdopt = append(r.onAdopt, f) }

// Get returns the tenant's snapshot, ErrUnknownTenant or ErrRejected.
func (r *Registry) Get(id tenant.ID) (*Snapshot, error) {
	s, ok := (*r.tenants.Load())[id]
	switch {
	case !ok:
		return nil, ErrUnknownTenant
	case s.snapshot == nil:
		return nil, ErrRejected
	}
	return s.snapshot, nil
}

// Tenants returns the ids of the tenants that are held, served or rejected,
// sorted.
func (r *Registry) Tenants() []tenant.ID {
	return slices.Sorted(maps.Keys(*r.tenants.Load()))
}

// Nested reports whether the directory holds a folder for each tenant. It is
// the shape of the start, which a running server keeps.
func (r *Registry) Nested() bool { return r.directory.shape == ShapeNested }

// Findings returns the findings for which a tenant is rejected, or the warnings
// of a served one. They are shared and must not be changed.
func (r *Registry) Findings(id tenant.ID) []Finding {
	return (*r.tenants.Load())[id].findings
}

// Snapshots returns the snapshot of each served tenant.
func (r *Registry) Snapshots() map[tenant.ID]*Snapshot { return snapshots(*r.tenants.Load()) }

// complete reports whether everything in the directory is served as it was read
// last.
func (r *Registry) complete() bool {
	held := *r.tenants.Load()
	return !r.incomplete && servedOf(held) == len(held)
}
