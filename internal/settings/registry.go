package settings

import (
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
	// Debounce is the quiet time that ends a burst of changes; 0 is 100 ms. A
	// burst that goes on is cut after ten times of it.
	Debounce time.Duration
	// Poll is how often the directory is looked at besides the notifications
	// of the system, which network file systems do not give; 0 is 2 s.
	Poll time.Duration
	// WithoutWatch turns notifications off and leaves the poll.
	WithoutWatch bool
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Debounce == 0 {
		o.Debounce = 100 * time.Millisecond
	}
	if o.Poll == 0 {
		o.Poll = 2 * time.Second
	}
	return o
}

// AdoptFunc is told of the snapshots that hold from now on, one for each served
// tenant. The map is the callee's own. The context outlives the request that
// asked for the reload.
type AdoptFunc func(context.Context, map[tenant.ID]*Snapshot)

// ReloadResult is the answer to a reload.
type ReloadResult struct {
	// Adopted: what is in the directory is what is served.
	Adopted  bool
	Findings []Finding
	// Err is ErrUnknownTenant when no such tenant is held, or the context's
	// when it ended before the reload began.
	Err error
}

// Registry owns every tenant's current snapshot and every reload. Its methods
// may be called by many goroutines.
type Registry struct {
	// Fixed after New.
	dir     string
	options Options
	metrics *metrics
	onAdopt []AdoptFunc

	// tenants is replaced whole, never changed.
	tenants atomic.Pointer[map[tenant.ID]state]

	// turn holds one token, which a reload takes: they go one after the other.
	turn chan struct{}
	// Guarded by turn.
	last string // outcome of the content that was judged last
	// stamp is that of the last reading, for the poll.
	stamp atomic.Pointer[string]
}

// state is a tenant's snapshot; nil is a rejected tenant.
type state struct{ snapshot *Snapshot }

// NewRegistry reads the directory and adopts it. A directory that would serve
// no tenant is refused with a *FindingsError.
func NewRegistry(dir string, o Options) (*Registry, error) {
	o = o.withDefaults()
	r := &Registry{dir: dir, options: o, turn: make(chan struct{}, 1)}
	c := r.read()
	snapshot, findings := compile(c, o.Now())
	if snapshot == nil {
		return nil, &FindingsError{Findings: findings}
	}
	r.metrics = newMetrics(o.Metrics)
	r.last = c.outcome()
	r.publish(snapshot)
	r.metrics.adopted(o.Now(), snapshot)
	r.log(findings)
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

// Snapshots returns the snapshot of each served tenant.
func (r *Registry) Snapshots() map[tenant.ID]*Snapshot {
	snapshots := map[tenant.ID]*Snapshot{}
	for id, s := range *r.tenants.Load() {
		if s.snapshot != nil {
			snapshots[id] = s.snapshot
		}
	}
	return snapshots
}

// Reload reads the directory again: the whole of it, or the folder of one
// tenant. It waits for its turn.
func (r *Registry) Reload(ctx context.Context, id *tenant.ID) ReloadResult {
	if id != nil {
		if _, err := r.Get(*id); errors.Is(err, ErrUnknownTenant) {
			return ReloadResult{Err: err}
		}
	}
	return r.reload(ctx, true)
}

// reload judges what is in the directory. asked is false for the watcher, to
// which unchanged content is nothing to speak of.
func (r *Registry) reload(ctx context.Context, asked bool) ReloadResult {
	select {
	case <-ctx.Done():
		return ReloadResult{Err: ctx.Err()}
	case <-r.turn:
	}
	defer func() { r.turn <- struct{}{} }()
	if err := ctx.Err(); err != nil {
		return ReloadResult{Err: err} // both were ready, and the turn was picked
	}

	c := r.read()
	outcome := c.outcome()
	unchanged := outcome == r.last
	r.last = outcome
	if unchanged && !asked {
		return ReloadResult{Adopted: true}
	}
	snapshot, findings := compile(c, r.options.Now())
	r.log(findings)
	if snapshot == nil {
		r.metrics.refused()
		r.options.Logger.ErrorContext(ctx, "settings reload refused; the settings before it are kept", "tenant", tenant.Default)
		return ReloadResult{Findings: findings}
	}
	r.adopt(context.WithoutCancel(ctx), snapshot)
	return ReloadResult{Adopted: true, Findings: findings}
}

// adopt makes the snapshot the current one, unless its content already is, and
// tells everyone. The order of the calls is the order of OnAdopt.
func (r *Registry) adopt(ctx context.Context, snapshot *Snapshot) {
	current, err := r.Get(snapshot.Tenant)
	if err == nil && current.Hash == snapshot.Hash {
		r.metrics.unchanged(r.options.Now())
	} else {
		r.publish(snapshot)
		r.metrics.adopted(r.options.Now(), snapshot)
		r.options.Logger.InfoContext(ctx, "settings adopted", "tenant", snapshot.Tenant, "hash", snapshot.Hash)
	}
	for _, f := range r.onAdopt {
		f(ctx, r.Snapshots())
	}
}

func (r *Registry) read() content {
	c := read(r.dir)
	r.stamp.Store(&c.stamp)
	return c
}

func (r *Registry) publish(snapshot *Snapshot) {
	r.tenants.Store(&map[tenant.ID]state{snapshot.Tenant: {snapshot: snapshot}})
}

func (r *Registry) log(findings []Finding) {
	for _, f := range findings {
		level := slog.LevelWarn
		if f.Severity == SeverityError {
			level = slog.LevelError
		}
		r.options.Logger.Log(context.Background(), level, "settings: "+f.Message,
			"tenant", tenant.Default, "file", f.File, "path", f.Path, "line", f.Line)
	}
}
