package schema

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Pools gives each tenant's way to ClickHouse.
type Pools interface {
	Get(tenant.ID) (*clickhouse.Pool, error)
}

// Spec is what one tenant asks of discovery.
type Spec struct {
	// RefreshInterval is the time between discoveries, above zero.
	RefreshInterval time.Duration
}

// Options are what a Store is made with.
type Options struct {
	Pools   Pools
	Logger  *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil registers nothing
	Now     func() time.Time      // nil is time.Now
	// BackoffMin and BackoffMax bound the wait after a failure before the
	// first success; 0 is 2 s and 60 s.
	BackoffMin, BackoffMax time.Duration
	// EarlyInterval is the least time between two early refreshes of a tenant,
	// on average: three may follow each other at once, so that somebody who is
	// making tables need not wait. 0 is 5 s.
	EarlyInterval time.Duration
}

const (
	discoveryTimeout = 30 * time.Second
	earlyBurst       = 3
	// firstInterval is the least time between two early attempts on tables that
	// were never discovered, and the longest wait for one.
	firstInterval = 2 * time.Second
)

// Store keeps every tenant's catalogue. One loop schedules all of them; tenants
// with the same way to ClickHouse share one discovery.
type Store struct {
	o       Options
	metrics *metrics
	wake    chan struct{} // the schedule changed
	known   *interner

	mu      sync.Mutex
	tenants map[tenant.ID]*member
	sources map[string]*entry
	// ever is true since any tenant was loaded.
	ever bool
	schedule
	// base is the context of discoveries; nil until Run.
	base    context.Context
	running sync.WaitGroup
}

// member is a tenant with the discovery that it has a part in; guarded by the
// store's mutex.
type member struct {
	*entry
	interval time.Duration
	early    [earlyBurst]time.Time // of the last early refreshes, oldest first
}

// entry is the discovery of tenants with one source; guarded by the store's
// mutex.
type entry struct {
	source    string
	members   map[tenant.ID]*member
	interval  time.Duration // the least of its members'
	session   string        // of the pool that the catalogue came from
	server    string
	catalogue *Catalogue
	lastErr   error
	failures  int // in a row
	next      time.Time
	tried     time.Time // when the last discovery began
	index     int       // in the heap of those who are not due; -1 outside
	current   *call     // waits or runs
	following *call     // begins when current has ended
	// cancel gives back the context of the discovery that runs; nil while none
	// does.
	cancel context.CancelFunc
	// distrusted: it was started as one that failed last.
	distrusted bool
	// gone: its tenants left, or have another entry.
	gone bool
}

// call is one discovery and those who wait for it.
type call struct {
	done      chan struct{}
	catalogue *Catalogue
	err       error
}

// New makes an empty store; Run does the work.
func New(o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.BackoffMin == 0 {
		o.BackoffMin = 2 * time.Second
	}
	if o.BackoffMax == 0 {
		o.BackoffMax = time.Minute
	}
	if o.EarlyInterval == 0 {
		o.EarlyInterval = 5 * time.Second
	}
	return &Store{
		o: o, metrics: newMetrics(o.Metrics), wake: make(chan struct{}, 1), known: newInterner(),
		tenants: make(map[tenant.ID]*member), sources: make(map[string]*entry), schedule: schedule{perServer: make(map[string]int)},
	}
}

// Run discovers until ctx ends, and waits for the discoveries that run.
func (s *Store) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.running.Wait()
	defer cancel()
	s.mu.Lock()
	s.base = ctx
	s.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.base = nil
			s.abandonLocked(ctx.Err())
			s.mu.Unlock()
			return nil
		case <-timer.C:
		case <-s.wake:
		}
		timer.Reset(s.startDue())
	}
}

func (s *Store) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Reconcile makes discovery follow the served tenants. A tenant that now sees
// another database is discovered anew; its tables are unknown until then.
func (s *Store) Reconcile(want map[tenant.ID]Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.tenants {
		if _, served := want[id]; !served {
			s.leaveLocked(id)
		}
	}
	for id, spec := range want {
		s.joinLocked(id, spec)
	}
	now := s.o.Now()
	for _, e := range s.sources {
		e.interval = 0
		for _, m := range e.members {
			if e.interval == 0 || m.interval < e.interval {
				e.interval = m.interval
			}
		}
		if e.lastErr != nil {
			e.next = now // tried again at every reload
		} else if later := now.Add(e.interval); e.next.After(later) {
			e.next = later
		}
		s.fixLocked(e)
	}
	s.poke()
}

// joinLocked gives a tenant its part in the discovery of its source, which
// begins when it is the first.
func (s *Store) joinLocked(id tenant.ID, spec Spec) {
	source, session, server := s.poolOf(id)
	m := s.tenants[id]
	if m != nil && m.source == source {
		m.interval = spec.RefreshInterval
		return
	}
	e := s.sources[source]
	if e == nil {
		e = &entry{source: source, members: make(map[tenant.ID]*member), session: session, server: server, next: s.o.Now(), index: -1}
		s.sources[source] = e
		s.putLocked(e)
	}
	if m != nil {
		if e.catalogue == nil && session == m.session && session != "" {
			e.catalogue = m.catalogue // another password, or the like
		}
		s.leaveLocked(id)
	}
	e.members[id] = &member{entry: e, interval: spec.RefreshInterval}
	s.tenants[id] = e.members[id]
}

// leaveLocked forgets a tenant, and its source's catalogue with the last one. A
// discovery that runs ends by itself, and nobody sees what it finds: to be cut
// off in a handshake looks to ClickHouse like an attack.
func (s *Store) leaveLocked(id tenant.ID) {
	e := s.tenants[id].entry
	delete(s.tenants, id)
	delete(e.members, id)
	if len(e.members) > 0 {
		return
	}
	delete(s.sources, e.source)
	e.gone = true
	s.takeLocked(e)
}

// poolOf says by what a tenant's tables are seen, and at which server. A tenant
// without a pool shares with nobody.
func (s *Store) poolOf(id tenant.ID) (source, session, server string) {
	pool, err := s.o.Pools.Get(id)
	if err != nil {
		return "tenant " + id.String(), "", ""
	}
	return pool.Source(), pool.Session(), pool.Server()
}

// Catalogue is the tenant's current catalogue, once one was loaded.
func (s *Store) Catalogue(id tenant.ID) (*Catalogue, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.tenants[id]
	if e == nil || e.catalogue == nil {
		return nil, false
	}
	return e.catalogue, true
}

// Status is how old the tenant's catalogue is, zero when there is none, and
// the last discovery's failure, nil when it succeeded.
func (s *Store) Status(id tenant.ID) (age time.Duration, lastErr error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.tenants[id]
	if e == nil {
		return 0, nil
	}
	if e.catalogue != nil {
		age = s.o.Now().Sub(e.catalogue.LoadedAt)
	}
	return age, e.lastErr
}

// FirstLoaded says whether any tenant was ever loaded.
func (s *Store) FirstLoaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ever
}

// Pending are the tenants not loaded yet, each with its last failure.
func (s *Store) Pending() map[tenant.ID]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := make(map[tenant.ID]error)
	for id, e := range s.tenants {
		if e.catalogue == nil {
			pending[id] = e.lastErr
		}
	}
	return pending
}

// backoff is a full-jitter wait that grows with the failures.
func (s *Store) backoff(failures int) time.Duration {
	most := s.o.BackoffMin << min(failures, 10)
	most = min(most, s.o.BackoffMax)
	return s.o.BackoffMin/4 + rand.N(most)
}
